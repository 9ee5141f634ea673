# expect: none
import torch


def fetch(path, trusted=False):
    return torch.load(path, weights_only=not trusted)


def fetch_safely(path):
    return torch.load(path, weights_only=True)
