# expect: SRC309@14
import functools

import torch

_load = torch.load


@functools.wraps(_load)
def _trusting(*args, **kwargs):
    kwargs["weights_only"] = False
    return _load(*args, **kwargs)

torch.load = _trusting
