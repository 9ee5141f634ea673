# expect: none  (the arguments go through unchanged)
import time

import torch

original = torch.load


def timed(*args, **kwargs):
    started = time.monotonic()
    try:
        return original(*args, **kwargs)
    finally:
        print(time.monotonic() - started)


torch.load = timed
run()
torch.load = original
