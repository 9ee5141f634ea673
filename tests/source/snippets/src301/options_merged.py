# expect: SRC301@9, SRC301@14, SRC301@20
import torch

DEFAULTS = {"map_location": "cpu", "weights_only": False}


class Reader:
    def read(self, path, **overrides):
        return torch.load(path, **{**DEFAULTS, **overrides})

    def again(self, path):
        self.options = dict(map_location="cpu")
        self.options.update({"weights_only": False})
        return torch.load(path, **self.options)


def third(path, *args, **options):
    options = {**options, "mmap": True}
    options |= {"weights_only": False}
    return torch.load(path, *args, **options)
