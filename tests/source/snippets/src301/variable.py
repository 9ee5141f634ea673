# expect: SRC301@8
import torch

SAFE = False


def resume(path):
    return torch.load(path, weights_only=SAFE)
