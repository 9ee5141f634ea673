# expect: none  (tensors only)
import torch
from torch import nn

model = nn.Linear(2, 2)
model.train()
torch.save(model.state_dict(), "model.pt")
torch.save({"model": model.state_dict(), "epoch": 3}, "checkpoint.pt")
