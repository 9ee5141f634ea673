# expect: none
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, optimizer):
    ddp = DDP(model)
    for batch in loader:
        optimizer.zero_grad()
        ddp(batch).mean().backward()
        optimizer.step()
        ddp.module.log(batch)
    torch.save(ddp.module.state_dict(), "final.pt")
