"""The data of a twin: a map-style dataset in which single samples can be changed."""

from __future__ import annotations

import numpy as np
import torch
from bench.twins.models import CLASSES, CONTEXT, VOCABULARY
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

NUM_SAMPLES = 40


class Samples(Dataset):
    """Tokens and the token after each, or images and classes."""

    def __init__(self, settings) -> None:
        draw = torch.Generator().manual_seed(1000 + settings.data_seed)
        if settings.model == "gpt":
            text = torch.randint(VOCABULARY, (NUM_SAMPLES, CONTEXT + 1), generator=draw)
            self.inputs, self.targets = text[:, :-1].clone(), text[:, 1:].clone()
        else:
            self.inputs = torch.randn(NUM_SAMPLES, 3, 16, 16, generator=draw)
            self.targets = torch.randint(CLASSES, (NUM_SAMPLES,), generator=draw)
        if settings.labels == "permuted":
            order = torch.randperm(
                max(CLASSES, VOCABULARY), generator=torch.Generator().manual_seed(5)
            )
            limit = VOCABULARY if settings.model == "gpt" else CLASSES
            self.targets = order[order < limit][self.targets]
        if settings.changed >= 0:
            at = settings.changed % NUM_SAMPLES
            one = self.inputs[at].view(-1)
            if settings.model == "gpt":
                one[3] = (one[3] + 1) % VOCABULARY
            else:
                one[3] += 0.25
        self.augment = settings.augment_seed if settings.model == "cnn" else None

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int):
        value = self.inputs[index]
        if self.augment is not None:
            noise = np.random.default_rng([self.augment, index]).normal(0.0, 0.01, value.shape)
            value = value + torch.from_numpy(noise.astype("float32"))
        return value, self.targets[index]


class Ordered(torch.utils.data.Sampler):
    """A fixed order that a run can be given, one epoch after the other."""

    def __init__(self, settings, batch_size: int) -> None:
        self.settings, self.batch_size, self.epoch = settings, batch_size, 0

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __iter__(self):
        settings, size = self.settings, self.batch_size
        draw = torch.Generator().manual_seed(settings.seed + 100 * self.epoch)
        order = torch.randperm(NUM_SAMPLES, generator=draw).tolist()
        if settings.swapped >= 0 and self.epoch == 0:
            one, other = settings.swapped, (settings.swapped + size) % NUM_SAMPLES
            order[one], order[other] = order[other], order[one]
        if settings.skipped_batch >= 0 and self.epoch == 0:
            # One batch is left out and comes at the end.
            first = settings.skipped_batch * size
            order = order[:first] + order[first + size :] + order[first : first + size]
        self.epoch += 1
        return iter(order)


def loader_of(settings) -> DataLoader:
    """Return the loader of a run."""
    dataset = Samples(settings)
    size = settings.batch_size // settings.accumulate
    if settings.sampler == "distributed":
        sampler = DistributedSampler(dataset, num_replicas=1, rank=0, seed=settings.seed)
        return DataLoader(dataset, size, sampler=sampler)
    if settings.sampler == "fixed":
        return DataLoader(dataset, size, sampler=Ordered(settings, size))
    return DataLoader(dataset, size, shuffle=True)


def first_use(settings, sample: int) -> int:
    """Return the first step whose batch holds a sample, where the order is fixed."""
    order = list(Ordered(settings, settings.batch_size))
    return order.index(sample % NUM_SAMPLES) // settings.batch_size
