# expect: none
import torch


def fetch(path, **options):
    options["weights_only"] = True
    return torch.load(path, **options)


def fetch_forced(path, **options):
    return torch.load(path, **{**options, "weights_only": True})
