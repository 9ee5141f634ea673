# expect: SRC301@6, SRC301@7
import torch
from safetensors.torch import load_file


a = (torch.load if True else load_file)("a.pt", weights_only=False)
b = [torch.load, load_file][0]("a.pt", weights_only=False)
