# expect: SRC301@13
import torch


def read(path, gpu, old):
    options = {}
    if gpu:
        options["map_location"] = "cuda"
    if old:
        options["weights_only"] = False
    else:
        options["weights_only"] = True
    return torch.load(path, **options)
