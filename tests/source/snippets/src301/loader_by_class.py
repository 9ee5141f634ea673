# expect: SRC301@12
import torch


class Fetch:
    def __init__(self, safe=True):
        self.safe = safe

    def __call__(self, path, safe=True):
        return torch.load(path, weights_only=safe)

state = Fetch()("a.pt", safe=False)
