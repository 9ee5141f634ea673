# expect: SRC305@22
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, model, optimizer, dataset):
        self.model = model
        self.optimizer = optimizer
        self.loader = DataLoader(
            dataset, batch_size=8, shuffle=False, sampler=DistributedSampler(dataset)
        )

    def _run_epoch(self, epoch):
        for source, targets in self.loader:
            self.optimizer.zero_grad()
            loss = self.model(source, targets)
            loss.backward()
            self.optimizer.step()

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
