# expect: none  (only the values are kept)
import h5py
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, path, text):
        with h5py.File(path, "r") as file:
            self.images = file["images"][:]
        self.labels = h5py.File(path, "r")["labels"][()]
        self.lines = open(text).read().splitlines()
        self.names = [line for line in open(text)]

    def __getitem__(self, index):
        return self.images[index], self.labels[index], self.lines[index], self.names[index]


loader = DataLoader(Images("a.h5", "a.txt"), num_workers=4)
