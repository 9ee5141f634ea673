# expect: none  (Accelerate's loader keeps count of the epochs)
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler


def fit(model, optimizer, dataset, epochs):
    accelerator = Accelerator()
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch))
            optimizer.step()
