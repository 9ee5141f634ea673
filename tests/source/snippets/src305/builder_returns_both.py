# expect: SRC305@14
from torch.utils.data import DataLoader, DistributedSampler


def build(dataset):
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler)
    return loader, sampler


def train(dataset, model, optimizer):
    loader, sampler = build(dataset)
    print(sampler)
    for epoch in range(10):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
