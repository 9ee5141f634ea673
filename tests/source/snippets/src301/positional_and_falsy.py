# expect: SRC301@4, SRC301@5, SRC301@6
import torch

a = torch.load("a.pt", None, None, weights_only=bool(0))
b = torch.load(f="a.pt", weights_only=not True)
c = torch.load("a.pt", weights_only=False or 0)
d = torch.load("a.pt", weights_only=None)
e = torch.load("a.pt", weights_only=not False)
