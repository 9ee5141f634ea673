# expect: none  (written under another name, then renamed)
from pathlib import Path

import torch


def save(state, folder):
    target = Path(folder) / "latest.pt"
    part = target.with_suffix(".part")
    torch.save(state, part)
    part.replace(target)
