# expect: none  (True wherever the argument exists)
import torch
from packaging.version import Version

OPTIONS = {"weights_only": True} if Version(torch.__version__) >= Version("1.13") else {}


def resume(path):
    return torch.load(path, map_location="cpu", **OPTIONS)
