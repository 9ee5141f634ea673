# expect: SRC301@8
from functools import partial

import torch

to_cpu = partial(torch.load, map_location="cpu")
anything = partial(to_cpu, weights_only=False)
state = anything("model.pt")
safe = partial(to_cpu, weights_only=True)
other = safe("model.pt")
