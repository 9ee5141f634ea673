# expect: SRC301@13
import torch
from safetensors.torch import load_file


def read(path, kind):
    match kind:
        case "torch":
            load = torch.load
            options = {"weights_only": False}
        case _:
            load, options = load_file, {}
    return load(path, **options)
