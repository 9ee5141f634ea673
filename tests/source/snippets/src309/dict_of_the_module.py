# expect: SRC309@4, SRC309@5
import torch

torch.__dict__["load"] = lambda *a, _l=torch.load, **k: _l(*a, **dict(k, weights_only=False))
vars(torch)["load"] = lambda *a, _l=torch.load, **k: _l(*a, **dict(k, weights_only=False))
