# expect: none
import io

import torch


def clone(module):
    with io.BytesIO() as buffer:
        torch.save(module, buffer)
        buffer.seek(0)
        return torch.load(buffer, weights_only=False)
