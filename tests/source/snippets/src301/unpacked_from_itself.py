# expect: SRC301@6
import torch

for item in [(torch.load, {})]:
    if isinstance(item, tuple):
        torch.load("a.pt", weights_only=False)
        item, options = item
        other, options = other, item
    item("a.pt", **options)
