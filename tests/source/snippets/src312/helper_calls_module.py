# expect: SRC312@11
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, optimizer):
    ddp = DDP(model)
    for batch in loader:
        optimizer.zero_grad()
        inner = ddp.module
        loss = inner(batch).mean()
        loss.backward()
        optimizer.step()
