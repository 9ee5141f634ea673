# expect: none  (nothing is loaded)
import torch

model = torch.jit.script(torch.nn.Linear(2, 2))
torch.jit.save(model, "scripted.pt")
traced = torch.jit.trace(model, torch.zeros(1, 2))
