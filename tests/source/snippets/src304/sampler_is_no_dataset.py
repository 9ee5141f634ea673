# expect: none  (samplers live in the main process)
import torch
from torch.utils.data import DataLoader, Sampler


class Shuffled(Sampler):
    def __init__(self, n):
        self.n = n
        self.g = torch.Generator()

    def __iter__(self):
        return iter(torch.randperm(self.n, generator=self.g).tolist())

    def __getitem__(self, index):
        return torch.randint(0, self.n, (1,), generator=self.g)


loader = DataLoader(list(range(10)), sampler=Shuffled(10), num_workers=4)
