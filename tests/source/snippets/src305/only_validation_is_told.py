# expect: SRC305@10
from torch.utils.data import DataLoader, DistributedSampler


def fit(model, optimizer, train_set, val_set, epochs):
    train_sampler = DistributedSampler(train_set, shuffle=True)
    val_sampler = DistributedSampler(val_set, shuffle=False)
    train_loader = DataLoader(train_set, sampler=train_sampler)
    val_loader = DataLoader(val_set, sampler=val_sampler)
    for epoch in range(epochs):
        val_sampler.set_epoch(epoch)
        for batch in train_loader:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
        for batch in val_loader:
            model(batch)
