# expect: none  (one commit, which cannot change)
import torch

model = torch.hub.load("owner/repo:3f0b7a7d9c8e5a1b2c3d4e5f60718293a4b5c6d7", "entry")
