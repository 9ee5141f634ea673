# expect: SRC301@4, SRC301@6
import torch

if (state := (ld := torch.load)("a.pt", weights_only=False)) is not None:
    print(state)
other = [got for path in ("b.pt", "c.pt") if (got := ld(path, weights_only=False))]
