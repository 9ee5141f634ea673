# expect: SRC301@5, SRC301@6, SRC301@7
import torch

VERB = "lo" + "ad"
a = getattr(torch, VERB)("a.pt", weights_only=False)
b = vars(torch)["load"]("a.pt", weights_only=False)
c = torch.__dict__["load"]("a.pt", weights_only=False)
d = getattr(torch, VERB)("a.pt", weights_only=True)
