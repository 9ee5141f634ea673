# expect: SRC316@7
import safetensors.numpy as sn


def version(path):
    weights = sn.load_file(path)
    return weights["__metadata__"]["format"]
