# expect: SRC316@6
from safetensors.torch import load_file


def read(path):
    return load_file(path)["__metadata__"]
