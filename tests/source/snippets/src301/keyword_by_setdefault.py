# expect: SRC301@7
import torch


def read(path, **options):
    options.setdefault("weights_only", False)
    return torch.load(path, **options)
