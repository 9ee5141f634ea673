# expect: none  (the wrapper's step clears)
import torch


class Scheduled:
    def __init__(self, inner):
        self.inner = inner

    def step(self):
        self.inner.step()
        self.inner.zero_grad()


def train(model, loader):
    optimizer = Scheduled(torch.optim.Adam(model.parameters()))
    for batch in loader:
        model(batch).backward()
        optimizer.step()
