# expect: SRC304@9
import numpy as np
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, lines):
        self.lines = lines
        self.rng = np.random.default_rng(5)

    def __iter__(self):
        for line in self.lines:
            if self.rng.random() < 0.9:
                yield line


loader = DataLoader(Stream(["a"]), num_workers=3)
