# expect: SRC309@8, SRC309@10
from functools import partial
from unittest import mock

import torch
from library import Model

with mock.patch("torch.load", partial(torch.load, weights_only=False)):
    model = Model("weights.pt")
with mock.patch.object(torch, "load", partial(torch.load, weights_only=False)):
    model = Model("weights.pt")
