# expect: SRC312@10
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, loader, optimizer, rank):
    model = DDP(net.to(rank), device_ids=[rank])
    for x, y in loader:
        optimizer.zero_grad()
        out = model.module(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
