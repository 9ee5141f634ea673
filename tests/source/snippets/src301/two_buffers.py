# expect: SRC301@12
import io

import torch


def exchange(value, received):
    sent = io.BytesIO()
    torch.save(value, sent)
    other = io.BytesIO()
    other.write(received)
    return sent, torch.load(other, weights_only=False)
