# expect: none
from tools import begin_epoch
from torch.utils.data import DataLoader, DistributedSampler


def train(dataset, model, optimizer):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    for epoch in range(10):
        begin_epoch(loader, epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
