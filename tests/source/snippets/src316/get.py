# expect: SRC316@7
from safetensors.torch import load_file


def load(path):
    tensors = load_file(path)
    config = tensors.get("__metadata__", {})
    return tensors, config
