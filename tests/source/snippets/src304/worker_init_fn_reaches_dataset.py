# expect: none  (worker_init_fn gives each worker its own generator)
import numpy as np
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Crops(Dataset):
    def __init__(self, images):
        self.images = images
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.images[index] + self.rng.normal()


def own_generator(worker_id):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)


loader = DataLoader(Crops([1.0]), num_workers=4, worker_init_fn=own_generator)
