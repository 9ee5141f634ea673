# expect: SRC301@8
import torch

OPTIONS = {"map_location": "cpu", "weights_only": False}


def resume(path):
    return torch.load(path, **OPTIONS)
