# expect: SRC308@10, SRC301@14
import torch
from torch import nn

PATH = "net.pt"


def save():
    net = nn.Linear(2, 2)
    torch.save(net, PATH)


def restore(net):
    net.load_state_dict(torch.load(PATH, weights_only=False).state_dict())
