# expect: SRC304@12
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Jitter(Dataset):
    def __init__(self, x, rng=None):
        self.x = x
        self.rng = rng or np.random.default_rng(0)

    def __getitem__(self, i):
        return self.x[i] + self.rng.normal()


def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


loader = DataLoader(Jitter([1.0]), num_workers=4, worker_init_fn=seed_worker)
