# expect: SRC314@12
import torch


def train(model, loader, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        optimizer.zero_grad()
        for batch in loader:
            loss = model(batch)
            loss.backward()
            optimizer.step()
