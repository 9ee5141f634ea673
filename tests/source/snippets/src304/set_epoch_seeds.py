# expect: none  (each epoch gets another generator)
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, images):
        self.images = images
        self.rng = np.random.default_rng(0)

    def set_epoch(self, epoch):
        self.rng = np.random.default_rng(epoch)

    def __getitem__(self, index):
        return self.images[index] + self.rng.normal()


loader = DataLoader(Crops([1.0]), num_workers=4)
