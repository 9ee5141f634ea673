# expect: SRC309@5
import torch

original = torch.load
torch.load = lambda *args, **kwargs: original(*args, **{**kwargs, "weights_only": False})
