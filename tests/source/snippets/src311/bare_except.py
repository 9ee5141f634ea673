# expect: SRC311@9
import torch


def load(path):
    try:
        state = torch.load(path)
    except:
        state = torch.load(path, map_location="cpu", weights_only=False)
    return state
