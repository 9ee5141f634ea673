# expect: none  (the generator is made in the worker)
import numpy as np
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Crops(Dataset):
    def __init__(self, images):
        self.images = images
        self.rng = None

    def __getitem__(self, index):
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(info.seed if info else 0)
        return self.images[index] + self.rng.normal()


loader = DataLoader(Crops([1.0]), num_workers=4)
