# expect: SRC308@8
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def run(net):
    wrapped = DDP(net)
    torch.save(wrapped.module, "net.pt")
