# expect: none  (every value in sight is True)
import torch

SAFE = True


def resume(path, weights_only=True):
    first = torch.load(path, weights_only=SAFE)
    return first, torch.load(path, weights_only=weights_only)
