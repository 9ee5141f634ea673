# expect: none
import torch


def read(path, gpu):
    options = {"weights_only": False}
    if gpu:
        options["map_location"] = "cuda"
    options["weights_only"] = True
    return torch.load(path, **options)
