# expect: none  (nothing shows what is given)
import torch


def save(model, path):
    torch.save(model, path)
