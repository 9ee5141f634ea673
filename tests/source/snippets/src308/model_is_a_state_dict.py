# expect: none  (the name is model, the value is a dictionary of tensors)
import torch


def strip(path):
    model = torch.load(path, weights_only=True)
    model = {name: value.half() for name, value in model.items()}
    torch.save(model, path + ".half")
