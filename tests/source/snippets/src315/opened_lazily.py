# expect: none  (each worker opens its own)
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["images"][index]


loader = DataLoader(Images("a.h5"), num_workers=4)
