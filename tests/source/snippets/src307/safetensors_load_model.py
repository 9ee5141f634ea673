# expect: SRC307@6
from safetensors.torch import load_model


def restore(net, path):
    load_model(net, path, strict=False)
