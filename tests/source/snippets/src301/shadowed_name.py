# expect: none
import torch


def read(torch, path):
    return torch.load(path, pickle_module=None)


def rows(paths, load):
    return [load(path) for path in paths]


def local(path):
    torch = __import__("json")
    return torch.load(path, strict=False)
