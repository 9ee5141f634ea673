# expect: SRC304@13
import numpy as np
from torch.utils.data import DataLoader, Dataset


def make(seed):
    return np.random.default_rng(seed)


class Noise(Dataset):
    def __init__(self, seed):
        self.size = 10
        self.rng = make(seed)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.rng.normal(size=3)


loader = DataLoader(Noise(0), num_workers=4)
