"""Ten steps and ten more are twenty, bit for bit; if they are not, the broken link is named."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import Noisy, Stream, Training, guarded, plain, seed
from torch.utils.data import DataLoader, DistributedSampler, Sampler, WeightedRandomSampler

import everybit
from everybit.core.verdict import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.guard.samples.loops import Log

ROOT = Path(__file__).resolve().parents[3]
PERSISTENT = {"num_workers": 2, "persistent_workers": True}


def loader(**options: Any) -> Any:
    own = options.pop("own", False)
    return DataLoader(Noisy(own=own), batch_size=4, **{"shuffle": True, **options})


def sampled(sampler: Any, **options: Any) -> Any:
    return DataLoader(Noisy(), batch_size=4, sampler=sampler, **options)


def stateful(**options: Any) -> Any:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    return torchdata.StatefulDataLoader(Noisy(), batch_size=4, shuffle=True, **options)


KINDS: dict[str, Any] = {
    "shuffled": loader,
    "workers": lambda: loader(num_workers=2),
    "workers that stay": lambda: loader(**PERSISTENT),
    "generator": lambda: loader(generator=torch.Generator().manual_seed(3), num_workers=2),
    "generator in the data set": lambda: loader(own=True),
    "weighted": lambda: sampled(WeightedRandomSampler(torch.arange(1.0, 25.0), 24)),
    "shard": lambda: sampled(DistributedSampler(Noisy(48), num_replicas=2, rank=1), num_workers=2),
    "iterable": lambda: DataLoader(Stream(), batch_size=4, num_workers=2),
    "stateful": stateful,
    "stateful workers": lambda: stateful(num_workers=2),
}


def straight(make: Any, epochs: int = 3) -> tuple[Log, list[Any]]:
    seed()
    training = Training(make())
    return training.run(epochs), training.weights()


def first_half(make: Any, run: Path, stop: int) -> bytes:
    seed()
    training = Training(make())
    with guarded(training, run) as guard:
        training.run(3, stop=stop)  # The loop is left, and then it is saved.
        saved = training.save(guard)
    assert guard.findings == ()
    return saved


def second_half(make: Any, run: Path, saved: bytes) -> tuple[Log, list[Any], everybit.Guard]:
    seed()
    torch.rand(9)  # Whatever a program draws until it has loaded its checkpoint.
    random.random()
    training = Training(make())
    with guarded(training, run) as guard:
        training.load(saved, guard)
        log = training.run(3)
    return log, training.weights(), guard


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [2, 6, 9])
def test_two_halves_are_the_whole(kind: str, stop: int, tmp_path: Path) -> None:
    """Within the first epoch, at its very end, and within the second."""
    make = KINDS[kind]
    log, weights = straight(make)
    saved = first_half(make, tmp_path / "half", stop)
    rest, resumed, guard = second_half(make, tmp_path / "rest", saved)
    assert rest == log[stop:]
    assert resumed == weights
    assert guard.findings == ()
    assert guard.verdict.status is Status.CLEAN
    records = list(everybit.open_run(tmp_path / "rest").samples())
    assert (records[0].epoch, records[0].batch) == (stop // 6, stop % 6)


@pytest.mark.parametrize("kind", ["shuffled", "workers that stay"])
def test_saved_within_the_loop(kind: str, tmp_path: Path) -> None:
    make = KINDS[kind]
    seed()
    training = Training(make())
    log, saved = [], b""
    with guarded(training, tmp_path / "half") as guard:
        next(iter(training.loader))  # A pass that is broken off, to look at a batch.
        for entry in training.steps(3):
            log.append(entry)
            if training.step == 8:
                saved = training.save(guard)
    rest, resumed, guard = second_half(make, tmp_path / "rest", saved)
    assert (rest, resumed, guard.findings) == (log[8:], training.weights(), ())


def test_a_loop_that_leaves_every_pass_begins_a_new_one(tmp_path: Path) -> None:
    seed()
    training = Training(loader())
    with guarded(training, tmp_path / "half") as guard:
        for _ in range(2):
            training.run(training.epoch + 1, stop=training.step + 3)
            saved = training.save(guard)
        following = next(iter(training.loader))
    training = Training(loader())
    with guarded(training, tmp_path / "rest") as guard:
        training.load(saved, guard)
        assert plain(next(iter(training.loader))) == plain(following)


def test_skipped_samples_are_not_loaded(tmp_path: Path) -> None:
    saved = first_half(loader, tmp_path / "half", 4)
    counted = Counting()
    training = Training(DataLoader(counted, batch_size=4, shuffle=True))
    with guarded(training, tmp_path / "rest") as guard:
        training.load(saved, guard)
        training.run(1)
    assert len(counted.asked) == 8


class Counting(Noisy):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.asked.append(index)
        return super().__getitem__(index)


SCRIPT = """
import os, signal, sys
import torch
from torch.utils.data import DataLoader
from tests.guard.samples.loops import Noisy, Training, guarded, seed

how, folder = sys.argv[1:]
seed()
torch.set_num_threads(1)
training = Training(DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2))
with guarded(training, f"{folder}/{how}") as guard:
    if how == "rest":
        training.load(open(f"{folder}/saved.pt", "rb").read(), guard)
    log = training.run(3, stop=9 if how == "killed" else None)
    if how == "killed":
        with open(f"{folder}/saved.pt", "wb") as file:
            file.write(training.save(guard))
        training.run(3, stop=11)  # What comes after the checkpoint is lost.
        os.kill(os.getpid(), signal.SIGKILL)
    torch.save((log, training.weights()), f"{folder}/{how}.pt")
"""


def test_across_a_kill(tmp_path: Path) -> None:
    def run(how: str) -> int:
        command = [sys.executable, "-c", SCRIPT, how, str(tmp_path)]
        return subprocess.run(command, cwd=ROOT, check=False, timeout=300).returncode

    log, weights = straight(lambda: loader(num_workers=2))
    assert run("killed") == -signal.SIGKILL
    assert run("rest") == 0
    rest, resumed = torch.load(tmp_path / "rest.pt", weights_only=True)
    assert (rest, resumed) == (log[9:], weights)


class Interleaved(Sampler[int]):
    """Draws each index as it is asked for, from the stream that dropout draws from."""

    def __init__(self) -> None:
        super().__init__()

    def __iter__(self) -> Iterator[int]:
        for _ in range(24):
            yield int(torch.randint(24, ()))

    def __len__(self) -> int:
        return 24


def test_a_sampler_that_cannot_be_gone_on_with_is_named(tmp_path: Path) -> None:
    make = lambda: sampled(Interleaved())  # noqa: E731
    saved = first_half(make, tmp_path / "half", 3)
    *_, guard = second_half(make, tmp_path / "rest", saved)
    (finding,) = guard.findings
    assert finding.rule == "DAT407"
    assert "draws from a stream that the training draws from too" in finding.message
    assert finding.evidence["batch"] == 3


def test_another_loader_is_not_gone_on_with(tmp_path: Path) -> None:
    saved = first_half(loader, tmp_path / "half", 3)
    *_, guard = second_half(lambda: DataLoader(Noisy(20), 4, shuffle=True), tmp_path / "r", saved)
    (finding,) = guard.findings
    assert finding.rule == "DAT407"
    assert "length is 20, and was 24" in finding.message


def test_other_workers_are_told_where_they_drew(tmp_path: Path) -> None:
    saved = first_half(lambda: loader(num_workers=2), tmp_path / "half", 3)
    *_, guard = second_half(lambda: loader(num_workers=1), tmp_path / "rest", saved)
    (finding,) = guard.findings
    assert "2 workers drew random numbers, and there are 1 now" in finding.message


def test_a_position_that_nobody_takes_up_is_told(tmp_path: Path) -> None:
    saved = first_half(loader, tmp_path / "half", 3)
    training = Training(loader())
    with guarded(training, tmp_path / "rest") as guard:
        training.load(saved, guard)
    (skipped,) = [each for each in guard.verdict.coverage.skipped if "position" in each.what]
    assert skipped.promised


def test_a_state_of_something_else_is_refused(tmp_path: Path) -> None:
    with guarded(Training(loader()), tmp_path / "run") as guard:
        for state in (None, {}, {"schema": "other"}):
            with pytest.raises(everybit.UsageError, match="no state of a Guard"):
                guard.load_state_dict(state)  # type: ignore[arg-type]


def test_a_loss_that_drops_at_the_resume_is_a_sensor(tmp_path: Path) -> None:
    def steps(guard_run: str, scale: float, count: int, state: Any = None) -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        with everybit.Guard(
            model, optimizer, run=tmp_path / guard_run, on_finding="record"
        ) as guard:
            if state is not None:
                guard.load_state_dict(state)
            for _ in range(count):
                (model(torch.randn(64, 4)).square().mean() * scale + scale).backward()
                optimizer.step()
                optimizer.zero_grad()
            return guard, guard.state_dict()

    _, state = steps("first", 1.0, 40)
    clean, _ = steps("same", 1.0, 8, state)
    assert clean.findings == ()
    dropped, _ = steps("dropped", 0.05, 8, state)
    (finding,) = dropped.findings
    assert (finding.rule, finding.evidence["side"]) == ("NUM503", "below")
