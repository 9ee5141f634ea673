# expect: SRC301@11, SRC301@14
import torch


class Reader:
    def __init__(self, trusted=True):
        self.load = torch.load
        self.options = dict(weights_only=False)

    def read(self, path):
        return self.load(path, **self.options)

    def read_again(self, path):
        return self.load(path, None, weights_only=0)
