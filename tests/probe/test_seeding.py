"""One seed for every stream: what it sets, what it cannot, and that runs repeat."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import everybit
from everybit.core.errors import UsageError
from everybit.probe import determinism
from everybit.probe.seeding import WorkerSeed, mixed_seed


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Leave flags, streams and environment as they were."""
    monkeypatch.setenv("PYTHONHASHSEED", os.environ.get("PYTHONHASHSEED", ""))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    streams = random.getstate(), np.random.get_state(), torch.get_rng_state()
    backends = torch.backends
    owners = [
        (backends.cudnn, "deterministic"),
        (backends.cudnn, "benchmark"),
        (backends.cudnn, "allow_tf32"),
        (backends.cuda.matmul, "allow_tf32"),
        (backends.mkldnn, "deterministic"),
        (torch.utils.deterministic, "fill_uninitialized_memory"),
    ]
    flags = [(owner, name, getattr(owner, name)) for owner, name in owners]
    precision = torch.get_float32_matmul_precision()
    yield
    torch.use_deterministic_algorithms(False)
    torch._C._set_float32_matmul_precision(precision)
    for owner, name, value in flags:
        setattr(owner, name, value)
    random.setstate(streams[0])
    np.random.set_state(streams[1])
    torch.set_rng_state(streams[2])


def _draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_every_stream_repeats():
    everybit.seed_everything(42)
    first = _draw()
    assert first != _draw()
    everybit.seed_everything(42)
    assert _draw() == first
    everybit.seed_everything(43)
    assert all(a != b for a, b in zip(_draw(), first, strict=True))


def test_flags_are_set_read_back_and_told():
    seeded = everybit.seed_everything(1, deterministic="strict")
    told = {each.name: each.value for each in seeded.set}
    assert told["deterministic_algorithms"] is True
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.utils.deterministic.fill_uninitialized_memory
    everybit.seed_everything(1, deterministic="warn")
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_off_leaves_the_flags_alone():
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    seeded = everybit.seed_everything(1, deterministic="off")
    assert torch.backends.cudnn.benchmark
    assert torch.get_float32_matmul_precision() == "high"
    assert not torch.are_deterministic_algorithms_enabled()
    assert "cudnn.benchmark" not in {each.name for each in seeded.set}


def test_a_flag_that_does_not_take_is_not_set(monkeypatch):
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)
    torch._C._set_float32_matmul_precision("high")
    seeded = everybit.seed_everything(1)
    torch._C._set_float32_matmul_precision("highest")
    (left,) = [each for each in seeded.not_set if each.name == "float32_matmul_precision"]
    assert "reads 'high'" in left.why
    assert not seeded.complete
    assert "not set" in str(seeded)


def test_a_flag_that_torch_refuses_is_told_and_the_others_are_set(monkeypatch):
    def refuse(_):
        raise RuntimeError("mixing of the legacy and new APIs\nis not allowed")

    monkeypatch.setattr(torch, "set_float32_matmul_precision", refuse)
    seeded = everybit.seed_everything(1)
    (left,) = [each for each in seeded.not_set if each.name == "float32_matmul_precision"]
    assert left.why == "torch refused it (mixing of the legacy and new APIs)"
    assert "cudnn.deterministic" in {each.name for each in seeded.set}


@pytest.mark.parametrize(
    ("value", "started", "is_set"),
    [("", False, True), ("", True, False), (":4096:8", True, True), (":0:0", False, False)],
)
def test_the_workspace_of_cublas_is_checked_by_us(monkeypatch, value, started, is_set):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: started)
    environ = {determinism.WORKSPACE: value} if value else {}
    done, left = determinism.make_deterministic("warn", environ)
    assert (determinism.WORKSPACE in {each.name for each in done}) == is_set
    assert (determinism.WORKSPACE in {each.name for each in left}) != is_set
    if is_set:
        assert environ[determinism.WORKSPACE] == ":4096:8"


def test_without_cuda_no_workspace_is_set(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    environ = {}
    done, left = determinism.make_deterministic("warn", environ)
    assert environ == {}
    assert determinism.WORKSPACE not in {each.name for each in (*done, *left)}


def test_an_override_from_outside_is_told():
    _, left = determinism.make_deterministic("warn", {"NVIDIA_TF32_OVERRIDE": "1"})
    assert "TF32 is forced on" in left[-1].why
    _, left = determinism.make_deterministic("warn", {"NVIDIA_TF32_OVERRIDE": "0"})
    assert left == []


_HASHES = """
import os, subprocess, sys, everybit
seeded = everybit.seed_everything(7, deterministic="off")
print(sorted(each.name for each in seeded.not_set))
child = [sys.executable, "-c", "print(hash('a'))"]
print(*{subprocess.run(child, capture_output=True, text=True).stdout for _ in range(2)})
"""


@pytest.mark.parametrize(("given", "left"), [(None, 1), ("0", 0), ("7", 0), ("random", 1)])
def test_the_hash_seed_is_for_children_and_that_is_said(given, left):
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
    if given is not None:
        environ["PYTHONHASHSEED"] = given
    told = subprocess.run(
        [sys.executable, "-c", _HASHES], capture_output=True, text=True, check=True, env=environ
    ).stdout.splitlines()
    assert told[0] == ("['PYTHONHASHSEED of this process']" if left else "[]")
    assert len(told[1].split()) == 1  # both children hash alike


class _Augmented(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor(
            [index, random.random(), np.random.rand(), float(torch.rand(()))], dtype=torch.float64
        )


def _epochs(num_workers, seed=42, **arguments):
    seeded = everybit.seed_everything(seed, deterministic="off", **arguments)
    loader = DataLoader(
        _Augmented(), batch_size=2, shuffle=True, num_workers=num_workers, **seeded.loader
    )
    return [torch.cat(list(loader)) for _ in range(2)]


def test_workers_repeat_differ_from_each_other_and_from_epoch_to_epoch():
    first, second = _epochs(2)
    again = _epochs(2)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    drawn = torch.cat([first, second])[:, 1:]
    assert len(drawn.unique()) == drawn.numel()


def test_the_order_of_samples_does_not_depend_on_what_was_drawn_before():
    seeded = everybit.seed_everything(42, deterministic="off")
    torch.rand(3)
    (order,) = list(DataLoader(_Augmented(), batch_size=8, shuffle=True, **seeded.loader))
    assert torch.equal(order[:, 0], _epochs(0)[0][:, 0])


def test_ranks_share_the_order_and_the_model_but_not_the_augmentation(monkeypatch):
    def of_rank(rank, **arguments):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        found = _epochs(1, **arguments)[0]
        everybit.seed_everything(42, deterministic="off", **arguments)
        return found, torch.nn.Linear(3, 3).weight.detach().clone()

    (a, model_a), (b, model_b) = of_rank(0, by_rank=True), of_rank(1, by_rank=True)
    assert torch.equal(model_a, model_b)
    assert torch.equal(a[:, 0], b[:, 0])
    assert not torch.isin(a[:, 1:], b[:, 1:]).any()
    (a, _), (b, _) = of_rank(0), of_rank(1)
    assert torch.equal(a, b)


def test_a_rank_gets_streams_of_its_own_after_the_model(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    drawn = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        assert everybit.seed_this_rank(42) == mixed_seed(42, int(rank))
        drawn.append(_draw())
    assert all(a != b for a, b in zip(*drawn, strict=True))


def test_without_workers_nothing_is_handed_out():
    seeded = everybit.seed_everything(42, workers=False)
    assert seeded.loader == {}
    assert seeded.generator is None


def test_what_workers_get_pickles():
    function = everybit.seed_everything(42).worker_init_fn
    assert pickle.loads(pickle.dumps(function)) == function == WorkerSeed(seed=42)


def test_a_generator_depends_on_each_of_its_numbers_and_on_how_many():
    keys = [(1,), (1, 0), (1, 1), (0, 1), (2,), (2**40, 3)]
    drawn = {int(everybit.generator_for(*each).integers(2**62)) for each in keys}
    assert len(drawn) == len(keys)
    assert everybit.generator_for(1, np.int64(5)).random() == everybit.generator_for(1, 5).random()


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", None, True])
def test_what_is_no_seed_is_refused_and_nothing_is_seeded(seed):
    before = torch.get_rng_state()
    with pytest.raises(UsageError):
        everybit.seed_everything(seed)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_whole_number_of_numpys_is_a_seed():
    seeded = everybit.seed_everything(np.int64(5), deterministic="off")
    first = torch.rand(2).tolist(), random.random()
    assert type(seeded.seed) is int
    everybit.seed_everything(5, deterministic="off")
    assert first == (torch.rand(2).tolist(), random.random())


def test_other_refusals(monkeypatch):
    with pytest.raises(UsageError, match="strict, warn, off"):
        everybit.seed_everything(1, deterministic="yes")
    with pytest.raises(UsageError):
        everybit.generator_for(1, -1)
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(UsageError, match="RANK=3"):
        everybit.seed_everything(1)


def test_large_seeds_are_told_as_numpy_takes_them():
    seeded = everybit.seed_everything(2**63 - 1, deterministic="off")
    told = {each.name: each.value for each in seeded.set}
    assert told["numpy"] == 2**32 - 1
    assert told["torch"] == 2**63 - 1
