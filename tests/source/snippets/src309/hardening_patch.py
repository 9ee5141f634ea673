# expect: none  (it forces the protection on)
import functools

import torch

torch.load = functools.partial(torch.load, weights_only=True)
