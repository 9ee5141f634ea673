# expect: SRC304@9, SRC304@18
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Train(Dataset):
    def __init__(self, x):
        self.x = x
        self.rng = np.random.default_rng(0)

    def __getitem__(self, i):
        return self.x[i] + self.rng.normal()


class Paired(Dataset):
    def __init__(self, x):
        self.x = x
        self.rng = np.random.default_rng(1)

    def __getitem__(self, i):
        return self.x[i] * self.rng.normal()


class Sampler:
    def reset(self, epoch):
        self.rng = np.random.default_rng(epoch)


def loaders(x):
    return DataLoader(Train(x), num_workers=2), DataLoader(Paired(x), num_workers=2)
