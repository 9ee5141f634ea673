# expect: none
import torch
from packaging import version

OPTIONS = {"weights_only": True} if version.parse(torch.__version__) >= version.parse("1.13") else {}


def read(path):
    return torch.load(path, map_location="cpu", **OPTIONS)
