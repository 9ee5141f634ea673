# expect: SRC301@8
import torch
from safetensors.torch import load_file


def read(path):
    for load in (load_file, torch.load):
        got = load(path, weights_only=False)
        if got is not None:
            return got
