# expect: SRC301@6
import torch


def load_checkpoint(path, device="cpu", weights_only=False):
    return torch.load(path, map_location=device, weights_only=weights_only)
