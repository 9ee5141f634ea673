# expect: none  (formats of their own, no pickled Python class)
import torch
from torch import nn

model = torch.jit.script(nn.Linear(2, 2))
torch.jit.save(model, "model.pt")
exported = torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),))
torch.export.save(exported, "model.pt2")
