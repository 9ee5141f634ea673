# expect: none
import torch


def step(batch, device):
    images = batch["image"].pin_memory().to(device, non_blocking=True)
    labels = batch["label"].cuda(non_blocking=True)
    return images.float().mean() + labels.float().mean().item()
