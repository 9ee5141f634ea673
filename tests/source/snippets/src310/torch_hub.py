# expect: SRC310@4, SRC310@5
import torch

model = torch.hub.load("pytorch/vision:v0.10.0", "resnet18", weights=None)
other = torch.hub.load("owner/repo", "entry", trust_repo=True)
