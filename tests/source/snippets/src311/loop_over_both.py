# expect: SRC311@8
import torch


def load(path):
    for weights_only in (True, False):
        try:
            return torch.load(path, weights_only=weights_only)
        except Exception as error:
            last = error
    raise last
