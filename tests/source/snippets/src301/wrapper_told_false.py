# expect: SRC301@10
import torch


def load_checkpoint(path, weights_only=True):
    return torch.load(path, weights_only=weights_only)


def main():
    return load_checkpoint("old.pt", weights_only=False)
