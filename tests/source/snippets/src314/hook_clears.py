# expect: none
import torch


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters())
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
