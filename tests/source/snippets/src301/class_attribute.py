# expect: SRC301@9, SRC301@12
import torch


class Reader:
    load = staticmethod(torch.load)

    def read(self, path):
        return self.load(path, weights_only=False)

    def other(self, path):
        return Reader.load(path, weights_only=False)

    def safely(self, path):
        return self.load(path, weights_only=True)
