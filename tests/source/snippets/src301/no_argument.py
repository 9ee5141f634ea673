# expect: none  (the default is True since torch 2.6, and nothing here admits an older one)
import torch


def resume(path):
    return torch.load(path, map_location="cpu")
