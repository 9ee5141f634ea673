# expect: none  (written under another name, then moved)
import shutil
import tempfile

import torch


def save(state):
    with tempfile.NamedTemporaryFile(delete=False) as file:
        torch.save(state, file)
    shutil.move(file.name, "best.pt")
