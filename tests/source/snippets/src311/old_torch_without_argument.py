# expect: none  (torch before 1.13 has no such argument; newer ones never come here)
import torch


def load(path):
    try:
        return torch.load(path, weights_only=True)
    except TypeError:
        return torch.load(path)
