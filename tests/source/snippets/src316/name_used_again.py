# expect: none  (the name holds something else by then)
from safetensors.torch import load_file


def load(path, read_header):
    state = load_file(path)
    weight = state["weight"]
    state = read_header(path)
    return weight, state["__metadata__"]
