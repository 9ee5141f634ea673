# expect: none  (the buffers take turns)
import torch


def stream(batches, device):
    buffers = [torch.empty(64, 128, pin_memory=True) for _ in range(4)]
    for i, batch in enumerate(batches):
        buffer = buffers[i % 4]
        buffer.copy_(batch)
        yield buffer.to(device, non_blocking=True)
