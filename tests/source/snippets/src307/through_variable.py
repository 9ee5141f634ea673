# expect: SRC307@8
import torch

STRICT = False


def load(model, path):
    model.load_state_dict(torch.load(path, weights_only=True), strict=STRICT)
