# expect: none  (the name holds a state dict when it is saved)
import torch
from torch import nn


def save(path):
    model = nn.Linear(2, 2)
    model.eval()
    model = model.state_dict()
    torch.save(model, path)
