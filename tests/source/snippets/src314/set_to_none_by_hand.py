# expect: none  (each gradient is set to None)
import torch


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        for p in model.parameters():
            p.grad = None
        model(batch).backward()
        optimizer.step()
