# expect: none  (the worker's number is part of the seed)
import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, lines, seed):
        self.lines = lines
        self.seed = seed
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        info = get_worker_info()
        if info is not None:
            self.rng = np.random.default_rng((self.seed, info.id))
        for line in self.lines:
            if self.rng.random() < 0.9:
                yield line


loader = DataLoader(Stream(["a"], 0), num_workers=3)
