# expect: SRC301@9, SRC301@10
import torch
from torch.hub import load_state_dict_from_url

URL = "https://example.org/resnet.pth"


def build(model):
    model.load_state_dict(load_state_dict_from_url(URL, progress=True))
    other = torch.hub.load_state_dict_from_url(URL, map_location="cpu")["model"]
    return model, other
