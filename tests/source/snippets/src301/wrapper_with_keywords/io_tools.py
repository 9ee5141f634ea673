# expect: none
import torch


def fetch(path, **options):
    options.setdefault("weights_only", True)
    return torch.load(path, **options)
