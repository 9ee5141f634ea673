# expect: SRC309@12
import torch

_torch_load = torch.load


def load(*args, **kwargs):
    kwargs.setdefault("weights_only", False)
    return _torch_load(*args, **kwargs)


torch.load = load
