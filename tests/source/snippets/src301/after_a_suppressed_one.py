# expect: SRC301@11
import contextlib
import pickle
import torch


def read(path):
    state = None
    with contextlib.suppress(Exception):
        state = torch.load(path, weights_only=True)
    return state if state is not None else torch.load(path, weights_only=False)
