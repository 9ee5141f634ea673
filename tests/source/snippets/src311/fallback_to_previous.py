# expect: none  (another file, the same protection)
import torch


def load(folder):
    try:
        return torch.load(f"{folder}/last.pt")
    except RuntimeError:
        return torch.load(f"{folder}/previous.pt")
