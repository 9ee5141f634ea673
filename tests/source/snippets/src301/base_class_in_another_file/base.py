# expect: none
import torch


class Checkpointed:
    def _read(self, path, *, safe=True):
        return torch.load(path, map_location="cpu", weights_only=safe)
