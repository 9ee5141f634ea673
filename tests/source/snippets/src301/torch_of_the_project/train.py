# expect: none
import torch_tools as torch
from torch_tools import load

state = torch.load("a.txt")
other = load("a.txt")
