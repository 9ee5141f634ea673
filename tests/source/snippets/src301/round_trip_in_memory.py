# expect: none  (the bytes were made a line above by the same function)
import copy
import io

import torch


def clone(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)
