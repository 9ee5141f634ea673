# expect: none
from torch.utils.data import DataLoader, DistributedSampler


def begin_epoch(loader, epoch):
    sampler = getattr(loader, "sampler", None)
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def train(dataset, model, optimizer):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    for epoch in range(10):
        begin_epoch(loader, epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
