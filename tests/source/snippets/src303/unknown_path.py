# expect: none  (the caller chooses the name)
import torch


def save_checkpoint(state, path):
    torch.save(state, path)
