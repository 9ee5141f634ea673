# expect: none  (Lightning's loops call set_epoch)
import lightning as L
from torch.utils.data import DataLoader, DistributedSampler


class Data(L.LightningDataModule):
    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    def train_dataloader(self):
        return DataLoader(self.dataset, sampler=DistributedSampler(self.dataset))
