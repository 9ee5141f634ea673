# expect: none
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reseed(self, seed):
        self.rng = np.random.default_rng(seed)

    def __getitem__(self, index):
        return self.rng.normal()


def start(worker):
    torch.utils.data.get_worker_info().dataset.reseed(worker)


loader = DataLoader(Noise(0), num_workers=4, worker_init_fn=start)
