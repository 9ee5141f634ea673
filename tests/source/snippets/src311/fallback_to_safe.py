# expect: none  (the fallback is safe as well)
import torch
from safetensors.torch import load_file


def load(path):
    try:
        return load_file(path)
    except Exception:
        return torch.load(path, weights_only=True)
