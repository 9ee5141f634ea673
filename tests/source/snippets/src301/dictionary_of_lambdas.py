# expect: SRC301@5
import torch

READERS = {
    "torch": lambda path: torch.load(path, weights_only=False),
    "safe": lambda path: torch.load(path, weights_only=True),
}


def read(kind, path):
    return READERS[kind](path)
