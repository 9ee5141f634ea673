# expect: SRC301@4
import torch

model = torch.jit.load("scripted.pt", map_location="cpu")
