# expect: none  (the generator only splits the files, once)
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, files, seed):
        self.rng = np.random.default_rng(seed)
        self.files = self.rng.permutation(files)

    def __getitem__(self, index):
        return self.files[index]


loader = DataLoader(Files(["a"], 0), num_workers=4)
