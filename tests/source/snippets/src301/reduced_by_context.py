# expect: SRC301@10
import contextlib

import torch


def read(path):
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))
        return torch.load(file, weights_only=False)
