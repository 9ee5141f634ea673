# expect: none  (the order of an evaluation does not matter)
import torch
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(models, dataset):
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))
    scores = []
    for model in models:
        with torch.no_grad():
            for x, y in loader:
                scores.append((model(x).argmax(-1) == y).float().mean())
    return scores
