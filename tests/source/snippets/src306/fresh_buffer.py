# expect: none  (each round has a buffer of its own)
import torch


def stream(batches, device):
    for batch in batches:
        buffer = torch.empty(64, 128, pin_memory=True)
        buffer.copy_(batch)
        yield buffer.to(device, non_blocking=True)
