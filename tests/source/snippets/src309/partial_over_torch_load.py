# expect: SRC309@6
import functools

import torch

torch.load = functools.partial(torch.load, weights_only=False)
