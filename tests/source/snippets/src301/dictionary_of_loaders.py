# expect: SRC301@9, SRC301@13
import torch
from safetensors.torch import load_file

LOADERS = {".pt": torch.load, ".safetensors": load_file}


def read(path):
    return LOADERS[path.suffix](path, weights_only=False)


def read_or_torch(path):
    return LOADERS.get(path.suffix, torch.load)(path, weights_only=False)


def safely(path):
    return LOADERS[path.suffix](path)
