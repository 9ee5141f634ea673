# expect: SRC302@10, SRC302@18, SRC302@23
import pickle

import torch


def read(path, allow_pickle=False):
    if allow_pickle:
        with open(path, "rb") as file:
            return pickle.load(file)
    return torch.load(path, weights_only=True)


def indirectly(path, *, trusted=False):
    safe = not trusted
    if safe:
        return torch.load(path, weights_only=True)
    return pickle.load(open(path, "rb"))


def whatever(path, verbose=False):
    if verbose:
        return pickle.load(open(path, "rb"))
    return None
