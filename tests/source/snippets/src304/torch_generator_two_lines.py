# expect: SRC304@9
import torch
from torch.utils.data import DataLoader, Dataset


class Shift(Dataset):
    def __init__(self, x):
        self.x = x
        self.g = torch.Generator()
        self.g.manual_seed(3)

    def __getitem__(self, i):
        k = torch.randint(0, 10, (1,), generator=self.g)
        return torch.roll(self.x[i], int(k))


loader = DataLoader(Shift(torch.ones(4, 4)), num_workers=8, persistent_workers=True)
