# expect: SRC309@10
import torch


def unsafe(path, *args, **kwargs):
    kwargs["weights_only"] = False
    return torch.serialization.load(path, *args, **kwargs)


setattr(torch, "load", unsafe)
