# expect: SRC303@11
import torch


def train(model, loader, epochs):
    best = float("inf")
    for epoch in range(epochs):
        loss = step(model, loader)
        if loss < best:
            best = loss
            torch.save(model.state_dict(), "best.pt")
