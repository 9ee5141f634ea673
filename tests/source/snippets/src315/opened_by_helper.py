# expect: SRC315@12
import h5py
from torch.utils.data import DataLoader, Dataset


def open_file(path):
    return h5py.File(path, "r")


class Cubes(Dataset):
    def __init__(self, path):
        self.file = open_file(path)

    def __getitem__(self, index):
        return self.file["x"][index]


loader = DataLoader(Cubes("a.h5"), num_workers=4)
