# expect: none  (weights_only=True)
import torch

a = torch.load("a.pt", weights_only=True)
b = torch.load("b.pt", "cpu", weights_only=True)
c = torch.load("c.pt", **{"weights_only": True, "mmap": True})
