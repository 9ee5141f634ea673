# expect: SRC301@5
import torch

loader = torch.load
state = loader("run/model.pt", weights_only=False)
