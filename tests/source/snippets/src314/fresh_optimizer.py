# expect: none  (each round has its own model and optimizer)
import torch


def sweep(make, batch, rates):
    losses = []
    for rate in rates:
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        model(batch).backward()
        optimizer.step()
        losses.append(model(batch).item())
    return losses
