# expect: none
import h5py
from torch.utils.data import DataLoader, Dataset


class Cubes(Dataset):
    def __init__(self, path):
        self.path = path
        self._file = None

    @property
    def file(self):
        if self._file is None:
            self._file = h5py.File(self.path, "r")
        return self._file

    def __getitem__(self, index):
        return self.file["x"][index]


loader = DataLoader(Cubes("a.h5"), num_workers=4)
