# expect: none  (set_epoch is reached through the loader)
from torch.utils.data import DataLoader, DistributedSampler


def fit(model, optimizer, dataset, epochs):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    for epoch in range(epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
