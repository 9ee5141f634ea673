# expect: SRC308@18
import io

import torch
from torch import nn


def clone(module: nn.Module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def upload(module: nn.Module, send):
    buffer = io.BytesIO()
    # What is sent is a file elsewhere.
    torch.save(module, buffer)
    send(buffer.getvalue())
