# expect: none  (code of the project's own folder)
import torch

model = torch.hub.load("./vendored", "entry", source="local")
folder = torch.hub.get_dir()
