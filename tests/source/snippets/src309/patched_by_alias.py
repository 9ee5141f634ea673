# expect: SRC309@5
import torch.serialization as ts

_old = ts.load
ts.load = lambda *a, **k: _old(*a, **{**k, "weights_only": False})
