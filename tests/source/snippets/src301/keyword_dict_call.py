# expect: SRC301@7
import torch


def resume(path):
    options = dict(map_location="cpu", weights_only=False)
    return torch.load(path, **options)
