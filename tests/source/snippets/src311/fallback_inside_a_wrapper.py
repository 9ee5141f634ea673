# expect: SRC311@10
import dill
import torch


def load(path):
    try:
        return torch.load(path)
    except UnicodeDecodeError:
        return torch.load(path, pickle_module=dill)


def main():
    return load("a.pt"), load("b.pt")
