# expect: SRC308@11
import torch


def train(model, loader, optimizer):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    torch.save(model, "model.pt")
