# expect: none  (the outer loop clears every optimizer before the inner loop steps it)
import torch


def train(models, loader):
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    for batch in loader:
        for opt in optimizers:
            opt.zero_grad()
        for model, opt in zip(models, optimizers):
            model(batch).backward()
            opt.step()
