# expect: SRC304@9
import torch
from torch.utils.data import DataLoader, Dataset


class Mask(Dataset):
    def __init__(self, tokens):
        self.tokens = tokens
        self.generator = torch.Generator().manual_seed(0)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        keep = torch.rand(tokens.shape, generator=self.generator) > 0.15
        return tokens * keep


train = DataLoader(Mask(torch.ones(8, 8)), num_workers=2)
