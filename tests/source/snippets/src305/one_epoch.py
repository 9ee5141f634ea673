# expect: none  (there is only one epoch)
from torch.utils.data import DataLoader, DistributedSampler


def fit(model, optimizer, dataset):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    for batch in loader:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
