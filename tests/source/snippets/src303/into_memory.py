# expect: none  (nothing is overwritten on disk)
import io

import torch


def pack(best):
    buffer = io.BytesIO()
    torch.save(best, buffer)
    return buffer.getvalue()
