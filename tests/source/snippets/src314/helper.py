# expect: none  (the helper clears)
import torch


def reset(optimizers):
    for o in optimizers:
        o.zero_grad()


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        reset([optimizer])
        model(batch).backward()
        optimizer.step()
