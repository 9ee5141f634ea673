"""What a program does to its own data set on purpose, and the fault that looks like it."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.guard.contents.test_orders_meant import Loop
from torch.utils.data import DataLoader, Dataset, Subset

import everybit
from everybit.detect.sample_changed import SampleBook

COUNT = 96


class Points(Dataset):
    def __init__(self):
        drawn = np.random.default_rng(3)
        self.inputs = torch.from_numpy(drawn.normal(size=(COUNT, 4)).astype(np.float32))
        self.labels = torch.from_numpy(drawn.integers(3, size=COUNT))

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.inputs[index], self.labels[index]


def run(tmp_path, dataset, *, epochs=3, before=lambda _: None, behind=lambda *_: None, **options):
    """Train; call `before` each epoch, and `behind` each batch."""
    torch.manual_seed(0)
    loop = Loop(tmp_path)
    loader = DataLoader(dataset, **{"batch_size": 16, "shuffle": True, **options})
    with loop.guard:
        for epoch in range(epochs):
            before(epoch)
            for batch in loader:
                loop.step(batch[0], batch[1])
                behind(loop.model, *batch)
    told = [each.why for each in loop.guard.verdict.coverage.skipped if "read again" in each.what]
    return loop.found(), told


class Latents(Points):
    def __init__(self, kind):
        super().__init__()
        self.states = torch.zeros(COUNT, 3) if kind == "torch" else np.zeros((COUNT, 3))

    def __getitem__(self, index):
        return *super().__getitem__(index), self.states[index], index


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_the_loop_keeps_a_state_for_each_sample(kind, tmp_path):
    dataset = Latents(kind)

    def keep(model, inputs, _labels, _states, indices):
        with torch.no_grad():
            answers = model(inputs)
        where = indices if kind == "torch" else indices.numpy()
        dataset.states[where] = answers if kind == "torch" else answers.numpy()

    found, told = run(tmp_path, dataset, behind=keep)
    assert found == []
    assert "dataset.states" in told[0]


class Scaled(Points):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.inputs = self.inputs if kind == "torch" else self.inputs.numpy()
        self.epoch = 0

    def __getitem__(self, index):
        values = self.inputs[index]
        values *= 0.9
        return torch.as_tensor(values).clone(), self.labels[index]


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_reading_writes_though_the_loop_sets_things_too(kind, tmp_path):
    dataset = Scaled(kind)

    def renew(epoch):
        dataset.epoch = epoch
        dataset.notes = [epoch]

    assert run(tmp_path, dataset, before=renew) == (["DAT406"], [])


class Views(Points):
    """Whole batches, each in the data set's own memory."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.inputs[16 * index : 16 * index + 16], self.labels[16 * index : 16 * index + 16]


def test_the_loop_writes_the_data_sets_memory_through_a_batch(tmp_path):
    found, _ = run(
        tmp_path,
        Views(),
        behind=lambda _model, inputs, _labels: inputs.mul_(0.9),
        batch_size=1,
        collate_fn=lambda samples: samples[0],
    )
    assert found == ["DAT406"]


class Follows(Points):
    """A few samples follow the epoch that the loop sets; or one is damaged, while that is set."""

    epoch = 0

    def __init__(self, *, damaged):
        super().__init__()
        self.damaged = damaged

    def __getitem__(self, index):
        inputs, label = super().__getitem__(index)
        if self.damaged:
            return inputs + (index == 40 and self.epoch > 0), label
        return inputs * (1 + self.epoch * (index % 40 == 0)), label


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("damaged", [True, False])
def test_samples_that_follow_what_the_loop_sets(damaged, workers, tmp_path):
    dataset = Follows(damaged=damaged)
    found, told = run(
        tmp_path,
        dataset,
        epochs=4,
        before=lambda epoch: setattr(dataset, "epoch", epoch),
        num_workers=workers,
    )
    assert found == ["DAT406"] * damaged
    assert damaged or "dataset.epoch" in told[0]


@pytest.mark.parametrize("how", ["all", "some", "a list", "shuffled", "a list shuffled", "part"])
def test_labels_that_are_renewed_and_labels_that_are_shuffled(how, tmp_path):
    dataset = Points()
    if "list" in how:
        dataset.labels = dataset.labels.tolist()
    drawn = torch.Generator().manual_seed(5)

    def renew(epoch):
        if not epoch:
            return
        if "shuffled" in how or how == "part":
            order = torch.randperm(COUNT, generator=drawn)
            labels = torch.as_tensor(dataset.labels)[order]
        else:
            labels = torch.randint(3, (COUNT,), generator=drawn)
        if "list" in how:
            dataset.labels = labels.tolist()
        elif how == "some":
            dataset.labels[::9] = labels[::9]
        else:
            dataset.labels = labels

    samples = Subset(dataset, range(60)) if how == "part" else dataset
    found, told = run(tmp_path, samples, before=renew)
    # Of a part other labels come than were there before: its own list is that of the whole.
    shuffled = "shuffled" in how
    assert found == ["DAT413"] * shuffled
    assert shuffled or told


class Cached(Points):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        inputs, label = super().__getitem__(index)
        if index in self.cache:
            return self.cache[index].float(), label
        if index < 3:
            self.cache[index] = inputs.half()
        return inputs, label


def test_a_cache_that_keeps_fewer_bits(tmp_path):
    found, told = run(tmp_path, Cached())
    assert found == []
    assert "fewer bits" in told[0]


class OneFile(Points):
    """Opened in the constructor; a worker opens it anew, under the same name or its own."""

    def __init__(self, path, how):
        super().__init__()
        path.write_bytes(self.inputs.numpy().tobytes() * 100)
        self.path, self.how, self.pid = path, how, os.getpid()
        self.file = path.open("rb")
        self.files = {os.getpid(): self.file}

    def open_file(self):
        if self.how == "anew" and os.getpid() != self.pid:
            self.file, self.pid = self.path.open("rb"), os.getpid()
        if self.how == "for each":
            if os.getpid() not in self.files:
                self.files[os.getpid()] = self.path.open("rb")
            return self.files[os.getpid()]
        return self.file

    def __getitem__(self, index):
        file = self.open_file()
        file.seek(16 * COUNT * index)
        file.read(16)
        return super().__getitem__(index)


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="positions cannot be read")
@pytest.mark.parametrize("how", ["anew", "for each", "inherited"])
def test_the_process_itself_reads_what_workers_opened_anew(how, tmp_path):
    dataset = OneFile(tmp_path / "points.bin", how)
    found, _ = run(tmp_path, dataset, behind=lambda *_: dataset[5], num_workers=2)
    assert found == ["DAT410"] * (how == "inherited")
    dataset.file.close()


def kept():
    return sum(each.size_bytes for each in gc.get_objects() if isinstance(each, SampleBook))


@pytest.mark.parametrize("listed", [True, False])
def test_nothing_is_kept_of_data_sets_that_are_gone(listed, tmp_path):
    model = torch.nn.Linear(4, 3)
    before = kept()
    gone = []
    with everybit.Guard(model, run=tmp_path / "run") as guard:
        for _ in range(30):
            dataset = Points()
            gone.append(weakref.ref(dataset))
            held = [dataset[index] for index in range(COUNT)] if listed else dataset
            for inputs, _ in DataLoader(held, 16):
                model(inputs)
            del dataset, held, inputs
        gc.collect()
        # That of the last is let go of as another begins; of lists some are kept.
        assert kept() - before <= (18 if listed else 2) * COUNT * 2 * 8
        assert [each() for each in gone[:-1]] == [None] * 29
    assert guard.findings == ()


def test_a_data_set_that_stays_is_compared_all_along(tmp_path):
    dataset = Points()
    loop = Loop(tmp_path)
    with loop.guard:
        for epoch in range(4):
            loop.train(DataLoader(dataset, 16))  # Made anew, over the same samples.
            for _ in range(5):
                loop.validate(DataLoader(Subset(Points(), range(16)), 16))
            if epoch == 2:
                dataset.inputs.numpy()[7] = 0.5  # Past all that a tensor knows of itself.
    assert loop.found() == ["DAT406"]
