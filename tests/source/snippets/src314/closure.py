# expect: none  (the closure clears)
import torch


def train(model, loader):
    optimizer = torch.optim.LBFGS(model.parameters())
    for batch in loader:

        def closure():
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            return loss

        optimizer.step(closure)
