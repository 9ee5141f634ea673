# expect: SRC301@6
import torch
from functools import partial

paths = ["a.pt", "b.pt"]
states = list(map(partial(torch.load, weights_only=False), paths))
