"""Batches, draws and weights are to the last bit those of the loop that nobody looks at."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import everybit


class Augmented(Dataset):
    """Draws from all streams, of its own too, and reads another sample now and then."""

    def __init__(self):
        self.inputs = torch.arange(32.0 * 6).view(32, 6) / 100
        self.rng = np.random.default_rng(1)
        self.class_to_idx = {"a": 0, "b": 1}

    def __len__(self):
        return 32

    def __getitem__(self, index):
        if index % 8 == 3:
            return self[index - 1]
        value = self.inputs[index] + torch.rand(6) + float(np.random.normal()) + random.random()
        return value + float(self.rng.normal()), index % 3


def run(watch, workers):
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=workers)
    seen = []
    with watch(model, optimizer):
        for _ in range(2):
            for inputs, labels in loader:
                seen.append((inputs.clone(), labels.clone()))
                loss = nn.functional.cross_entropy(model(inputs), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    left = [torch.rand(1), torch.tensor(np.random.rand()), torch.tensor(random.random())]
    return [*(each for pair in seen for each in pair), *model.state_dict().values(), *left]


@pytest.mark.parametrize("workers", [0, 2])
def test_same_batches(workers, tmp_path):
    guards = []

    def watch(*things):
        guards.append(everybit.Guard(*things, run=tmp_path / "run", on_finding="record"))
        return guards[0]

    written = Augmented.__dict__["__getitem__"]
    bare = run(lambda *_: contextlib.nullcontext(), workers)
    watched = run(watch, workers)
    assert len(bare) == len(watched)
    assert all(torch.equal(a, b) for a, b in zip(bare, watched, strict=True))
    assert Augmented.__dict__["__getitem__"] is written
    rules = {finding.rule for finding in guards[0].findings}
    assert rules == ({"DAT403", "DAT411"} if workers else {"DAT411"})
    assert not guards[0]._fence.fault
