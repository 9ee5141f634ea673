# expect: SRC303@10
from pathlib import Path

import torch


class Trainer:
    def save(self):
        path = Path(self.folder) / "last.pt"
        torch.save({"model": self.model.state_dict(), "epoch": self.epoch}, path)
