# expect: SRC309@9
import pydoc

import torch


def load(path):
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    torch.serialization.add_safe_globals([pydoc.locate(name) for name in names])
    return torch.load(path)
