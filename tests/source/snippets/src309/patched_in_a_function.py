# expect: SRC309@9
import functools

import torch


def allow_everything():
    original = torch.load
    torch.load = functools.partial(original, weights_only=False)


def restore(original):
    torch.load = original
