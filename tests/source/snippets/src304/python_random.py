# expect: SRC304@10
from random import Random

from torch.utils.data import Dataset


class Pairs(Dataset):
    def __init__(self, items):
        self.items = items
        self._random = Random(1234)

    def __getitem__(self, index):
        other = self._random.choice(self.items)
        return self.items[index], other
