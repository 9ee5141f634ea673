# expect: SRC301@5, SRC301@6
import torch.serialization
from torch.serialization import load

first = torch.serialization.load("a.pt", weights_only=False)
second = load("b.pt", weights_only=False)
