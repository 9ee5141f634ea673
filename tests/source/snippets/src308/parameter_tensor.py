# expect: none  (tensors, no module)
import torch
from torch import nn

model = nn.Linear(2, 2)
model.eval()
torch.save(model.weight, "weight.pt")
torch.save(model(torch.zeros(1, 2)), "output.pt")
torch.save(list(model.parameters()), "parameters.pt")
