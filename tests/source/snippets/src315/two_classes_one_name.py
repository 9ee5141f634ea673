# expect: SRC315@8, SRC315@16
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")

    def __getitem__(self, index):
        return self.file["images"][index]


class Labels(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")

    def __getitem__(self, index):
        return self.file["labels"][index]


def loaders(path):
    return DataLoader(Images(path), num_workers=2), DataLoader(Labels(path), num_workers=2)
