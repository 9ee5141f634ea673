# expect: SRC301@4
import torch

load = lambda path: torch.load(path, map_location="cpu", weights_only=False)
state = load("model.pt")
