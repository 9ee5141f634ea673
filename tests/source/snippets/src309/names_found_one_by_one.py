# expect: SRC309@12
import importlib

import torch


def load(path):
    found = []
    for name in torch.serialization.get_unsafe_globals_in_checkpoint(path):
        module, _, attribute = name.rpartition(".")
        found.append(getattr(importlib.import_module(module), attribute))
    torch.serialization.add_safe_globals(found)
    return torch.load(path)
