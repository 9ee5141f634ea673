# expect: SRC311@10
import torch


def load(path):
    try:
        return torch.load(path, weights_only=True)
    except Exception:
        pass
    return torch.load(path, weights_only=False)
