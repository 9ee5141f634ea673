# expect: none  (a read-only map has no file offset)
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __init__(self, path):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.index = np.load(path + ".npy", mmap_mode="r")

    def __getitem__(self, i):
        return self.tokens[self.index[i]]


loader = DataLoader(Tokens("a.bin"), num_workers=4)
