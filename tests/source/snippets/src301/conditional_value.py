# expect: SRC301@6
import torch


def resume(path, trusted):
    return torch.load(path, weights_only=False if trusted else True)
