# expect: none  (zero_grad is there)
import torch


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
