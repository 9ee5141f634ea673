# expect: none  (the refusal stands)
import torch


def load(path):
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:
        raise RuntimeError(f"{path}: convert it first") from error
