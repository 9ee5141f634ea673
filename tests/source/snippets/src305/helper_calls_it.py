# expect: none  (a function that is called with the loader does it)
from torch.utils.data import DataLoader, DistributedSampler


def begin_epoch(loader, epoch):
    sampler = loader.sampler
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def fit(model, optimizer, dataset, epochs):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    for epoch in range(epochs):
        begin_epoch(loader, epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
