# expect: none  (the generator is made for each sample)
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, images, seed=0):
        self.images = images
        self.seed = seed
        self.epoch = 0

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, self.epoch, index))
        return self.images[index] + rng.normal()


loader = DataLoader(Crops([1.0]), num_workers=4)
