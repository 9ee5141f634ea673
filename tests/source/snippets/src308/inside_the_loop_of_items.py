# expect: none
import torch


def save(items):
    for name, tensor in items.items():
        torch.save(tensor, f"{name}.pt")
