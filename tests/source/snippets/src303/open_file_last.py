# expect: SRC303@7
import torch


def save(state):
    with open("last.ckpt", "wb") as file:
        torch.save(state, file)
