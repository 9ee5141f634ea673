# expect: none  (the only loader has no workers)
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, images):
        self.images = images
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.images[index] + self.rng.normal()


loader = DataLoader(Crops([1.0]), batch_size=8, num_workers=0)
