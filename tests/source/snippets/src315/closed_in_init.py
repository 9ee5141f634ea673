# expect: none  (closed before any worker starts)
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = h5py.File(path, "r")
        self.length = len(self.file["images"])
        self.file.close()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.file = h5py.File(self.path, "r")
        return self.file["images"][index]


loader = DataLoader(Images("a.h5"), num_workers=4)
