# expect: SRC304@14
import numpy as np
from torch.utils.data import Dataset


class Base(Dataset):
    def __len__(self):
        return 100


class Words(Base):
    def __init__(self, words):
        self.words = words
        rng = np.random.default_rng()
        self.rng = rng

    def __getitem__(self, index):
        if self.rng.random() < 0.5:
            return self.words[index][::-1]
        return self.words[index]
