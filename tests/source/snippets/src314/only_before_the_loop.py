# expect: SRC314@11
from torch import optim


def train(model, loader):
    optimizer = optim.Adam(model.parameters())
    optimizer.zero_grad()
    for batch in loader:
        loss = model(batch)
        loss.backward()
        optimizer.step()
