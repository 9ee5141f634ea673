# expect: none
from base import Trainer
from torch.utils.data import DataLoader, DistributedSampler


class Mine(Trainer):
    def __init__(self, dataset, model, optimizer):
        self.loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
        self.model, self.optimizer = model, optimizer

    def train(self):
        for epoch in range(10):
            self.begin(epoch)
            for batch in self.loader:
                self.optimizer.zero_grad()
                self.model(batch).backward()
                self.optimizer.step()
