# expect: SRC311@11
import logging
import torch


def read(path):
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:
        logging.warning("%s", error)
        return torch.load(path, weights_only=False)
