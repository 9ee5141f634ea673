# expect: none  (the callers in sight leave the default)
import torch


def load_cached(path, **kwargs):
    return torch.load(path, map_location="cpu", **kwargs)


state = load_cached("a.pt", mmap=True)
