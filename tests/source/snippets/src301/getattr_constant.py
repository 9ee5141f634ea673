# expect: SRC301@4
import torch

state = getattr(torch, "load")("model.pt", weights_only=False)
