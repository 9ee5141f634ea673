# expect: none  (micro-batches are summed, then cleared)
import torch


def train(model, loader, every):
    optimizer = torch.optim.Adam(model.parameters())
    for i, batch in enumerate(loader):
        (model(batch) / every).backward()
        if (i + 1) % every == 0:
            optimizer.step()
            model.zero_grad(set_to_none=True)
