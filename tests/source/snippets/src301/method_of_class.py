# expect: SRC301@7
import torch


class Checkpointer:
    def load(self, path):
        return torch.load(path, map_location=self.device, weights_only=False)

    def resume(self, path):
        return self.load(path)
