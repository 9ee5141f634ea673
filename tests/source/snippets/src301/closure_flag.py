# expect: SRC301@9
import torch


def reader(path):
    safe = False

    def read():
        return torch.load(path, weights_only=safe)

    return read
