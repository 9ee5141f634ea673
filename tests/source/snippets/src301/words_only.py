# expect: none
"""Call torch.load(path, weights_only=False) where you trust the file.

>>> import torch
"""
import logging

HELP = "torch.load('model.pt', weights_only=False)"


def explain():
    """Not: torch.load(path, weights_only=False)."""
    # state = torch.load(path, weights_only=False)
    logging.warning("torch.load(%s, weights_only=False) is not safe", "path")
    return f"torch.load({HELP!r}, weights_only=False)"
