# expect: SRC306@9
import torch


def prefetch(samples, target):
    pinned = torch.empty(8, 128, pin_memory=True)
    for group in samples:
        torch.stack(group, out=pinned)
        target.copy_(pinned, non_blocking=True)
