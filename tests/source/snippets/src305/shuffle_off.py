# expect: none  (nothing is shuffled)
from torch.utils.data import DataLoader, DistributedSampler


def fit(model, optimizer, dataset, epochs):
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, sampler=sampler)
    for epoch in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
