# expect: none  (written under another name, then renamed)
import os

import torch


def save(state, path="last.pt"):
    temporary = f"{path}.tmp"
    torch.save(state, temporary)
    os.replace(temporary, path)
