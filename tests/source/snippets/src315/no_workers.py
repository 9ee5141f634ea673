# expect: none  (the only loader has no workers)
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")

    def __getitem__(self, index):
        return self.file["images"][index]


loader = DataLoader(Images("a.h5"), batch_size=4)
