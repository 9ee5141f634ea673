# expect: SRC315@8
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        file = h5py.File(path, "r")
        self.images = file["images"]

    def __getitem__(self, index):
        return self.images[index]


loader = DataLoader(Images("a.h5"), num_workers=2)
