# expect: SRC301@8
import torch


def resume(path):
    options = {"map_location": "cpu"}
    options["weights_only"] = False
    return torch.load(path, **options)
