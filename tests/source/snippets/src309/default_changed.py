# expect: SRC309@4, SRC309@5
import torch

torch.serialization._default_to_weights_only = lambda pickle_module: False
torch.load.__kwdefaults__["weights_only"] = False
