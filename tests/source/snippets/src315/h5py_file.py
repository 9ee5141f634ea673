# expect: SRC315@8
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.length = len(self.file["images"])

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.file["images"][index]


loader = DataLoader(Images("a.h5"), batch_size=4, num_workers=4)
