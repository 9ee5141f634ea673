# expect: none  (the generator is seeded again for each sample)
import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, n):
        self.n = n
        self.g = torch.Generator()

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.g.manual_seed(index)
        return torch.randn(4, generator=self.g)


loader = DataLoader(Noise(10), num_workers=4)
