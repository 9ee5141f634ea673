"""Orders that follow from the script alone, and ids that are what they look like."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

import everybit


def points(count=48):
    return TensorDataset(torch.arange(count * 4.0).view(count, 4) / 100, torch.arange(count) % 3)


class Loop:
    """A model, and the two things that are done with a loader."""

    def __init__(self, tmp_path):
        self.model = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.guard = everybit.Guard(
            self.model, self.optimizer, run=tmp_path / "run", on_finding="record"
        )

    def step(self, inputs, labels):
        nn.functional.cross_entropy(self.model(inputs), labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self, loader):
        for batch in loader:
            self.step(*batch)

    def validate(self, loader):
        self.model.eval()
        with torch.no_grad():
            for inputs, _ in loader:
                self.model(inputs)
        self.model.train()

    def found(self):
        assert not self.guard._fence.fault
        return [finding.rule for finding in self.guard.findings]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("more", [True, False])
def test_passes_that_alternate_and_one_more(shared, more, tmp_path):
    generator = torch.Generator().manual_seed(1) if shared else None
    training = DataLoader(points(), 8, shuffle=True, generator=generator)
    validation = DataLoader(points(16), 8, generator=generator)
    loop = Loop(tmp_path)
    with loop.guard:
        for epoch in range(4):
            loop.train(training)
            for _ in range(2 if more and epoch == 2 else 1):
                loop.validate(validation)
    assert loop.found() == ["DAT415"] * more


@pytest.mark.parametrize("shared", [True, False])
def test_loaders_that_are_trained_on_together(shared, tmp_path):
    generator = torch.Generator().manual_seed(1) if shared else None
    first = DataLoader(points(64), 8, shuffle=True, generator=generator)
    second = DataLoader(points(24), 8, sampler=RandomSampler(points(24), generator=generator),
                        generator=generator)  # fmt: skip
    loop = Loop(tmp_path)
    with loop.guard:
        others = iter(second)
        for _ in range(4):
            for inputs, labels in first:
                batch = next(others, None)
                if batch is None:  # Three passes in one epoch, two in another.
                    others = iter(second)
                    batch = next(others)
                loop.step(inputs + batch[0], labels)
    assert loop.found() == []


@pytest.mark.parametrize("number", [0, 1])
def test_a_stream_that_is_seeded_for_each_epoch(number, tmp_path):
    training, validation = DataLoader(points(), 8, shuffle=True), DataLoader(points(16), 8)
    loop = Loop(tmp_path)
    with loop.guard:
        for epoch in range(4):
            torch.manual_seed(10 + number * epoch)
            loop.train(training)
            for _ in range(2 if epoch == 2 else 1):
                loop.validate(validation)
    # With the same number each time the order is the same: that is another matter.
    assert loop.found() == ([] if number else ["DAT404"])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        return self.head(self.embedding(ids).mean(1))


class Crops(Dataset):
    """Pieces of one long text, each from anywhere."""

    def __init__(self, text):
        self.text = text

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return self.text[7 * index : 7 * index + 12], index % 3


@pytest.mark.parametrize("crops", [True, False])
def test_every_second_id_is_zero(crops, tmp_path):
    ids = torch.randint(1, 100, (16, 16), generator=torch.Generator().manual_seed(1))
    ids[:, 1::2] = 0
    ids[0, 0] = 99
    samples = Crops(ids.view(-1)) if crops else TensorDataset(ids, torch.arange(16) % 3)
    model = Reader()
    with everybit.Guard(model, run=tmp_path / "run", on_finding="record") as guard:
        for inputs, labels in DataLoader(samples, 8):
            nn.functional.cross_entropy(model(inputs), labels).backward()
    assert [each.rule for each in guard.findings] == ["DAT412"] * crops
    told = [each.why for each in guard.verdict.coverage.skipped if each.what.startswith("type of")]
    assert ["a blank between" in each for each in told] == [True] * (not crops)
