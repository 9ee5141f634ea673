# expect: SRC301@5
import dill
import torch

state = torch.load("model.pt", pickle_module=dill)
