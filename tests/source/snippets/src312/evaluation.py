# expect: none  (evaluation needs no reduction)
import torch
from torch.nn.parallel import DistributedDataParallel


def run(model, loader, val_loader, optimizer):
    model = DistributedDataParallel(model)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
    with torch.no_grad():
        return [model.module(batch) for batch in val_loader]
