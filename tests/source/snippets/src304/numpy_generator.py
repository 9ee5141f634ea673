# expect: SRC304@9
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, images, seed=0):
        self.images = images
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        x = self.rng.integers(0, image.shape[1] - 32)
        return image[:, x : x + 32]


def loader(images):
    return DataLoader(Crops(images), batch_size=32, shuffle=True, num_workers=4)
