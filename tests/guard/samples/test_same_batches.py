"""Tracking changes nothing: batches, their order, and every random stream are as without it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import (
    Noisy,
    Stream,
    batches,
    plain,
    seed,
    streams,
    to_custom,
    to_nothing,
    to_tuple,
)
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import everybit
from everybit.core.samples import Order

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.samples import SampleRecord


def weighted() -> Any:
    return WeightedRandomSampler(torch.arange(1.0, 25.0), 20)


def tensors(**options: Any) -> Any:
    data = TensorDataset(torch.arange(48.0).view(24, 2), torch.arange(24))
    return DataLoader(data, batch_size=4, shuffle=True, **options)


def hugging_face(**options: Any) -> Any:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"x": [float(i) for i in range(24)], "t": ["a b"] * 24})
    return DataLoader(rows.with_format("torch"), batch_size=4, shuffle=True, **options)


def stateful(**options: Any) -> Any:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    return torchdata.StatefulDataLoader(Noisy(), batch_size=4, shuffle=True, **options)


def loader(data: Any = Noisy, **options: Any) -> Any:
    return DataLoader(data(), **options)


KINDS: dict[str, Any] = {
    "sequential": (partial(loader, batch_size=4), Order.SEQUENTIAL),
    "shuffled": (partial(loader, batch_size=5, shuffle=True, drop_last=True), Order.RANDOM),
    "generator": (
        lambda **o: loader(
            batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3), **o
        ),
        Order.RANDOM,
    ),
    "replacement": (
        lambda **o: loader(
            batch_size=4, sampler=RandomSampler(Noisy(), replacement=True, num_samples=40), **o
        ),
        Order.REPLACEMENT,
    ),
    "weighted": (lambda **o: loader(batch_size=4, sampler=weighted(), **o), Order.WEIGHTED),
    "subset": (
        lambda **o: loader(batch_size=4, sampler=SubsetRandomSampler([3, 5, 8, 9, 20]), **o),
        Order.SUBSET,
    ),
    "subset data": (lambda **o: DataLoader(Subset(Noisy(), [1, 4, 7]), **o), Order.SEQUENTIAL),
    "shard": (
        lambda **o: loader(
            batch_size=4, sampler=DistributedSampler(Noisy(), num_replicas=5, rank=2), **o
        ),
        Order.DISTRIBUTED,
    ),
    "batch sampler": (
        lambda **o: loader(batch_sampler=[[0, 3], [5], [7, 7, 1]], **o),
        Order.CUSTOM,
    ),
    "batches of the data set": (
        lambda **o: tensors_whole(BatchSampler(SequentialSampler(range(24)), 4, False), **o),
        Order.SEQUENTIAL,
    ),
    "no batches": (partial(loader, batch_size=None), Order.SEQUENTIAL),
    "own class": (partial(loader, batch_size=4, collate_fn=to_custom), Order.SEQUENTIAL),
    "tuple": (partial(loader, batch_size=4, collate_fn=to_tuple), Order.SEQUENTIAL),
    "nothing": (partial(loader, batch_size=4, collate_fn=to_nothing), Order.SEQUENTIAL),
    "iterable": (partial(loader, Stream, batch_size=4), Order.ITERABLE),
    "iterable, no batches": (partial(loader, Stream, batch_size=None), Order.ITERABLE),
    "pinned": (partial(loader, batch_size=4, pin_memory=True), Order.SEQUENTIAL),
    "tensors": (tensors, Order.RANDOM),
    "hugging face": (hugging_face, Order.RANDOM),
    "stateful": (stateful, Order.RANDOM),
}


def tensors_whole(sampler: Any, **options: Any) -> Any:
    data = TensorDataset(torch.arange(48.0).view(24, 2), torch.arange(24))
    return DataLoader(data, sampler=sampler, batch_size=None, **options)


def both(make: Any, run: Path, **options: Any) -> tuple[list[Any], list[Any], list[SampleRecord]]:
    """Return the batches without and with tracking, and what was recorded."""
    seed()
    without = batches(make(**options)), streams()
    model = torch.nn.Linear(1, 1)
    seed()
    with everybit.Guard(model, run=run, on_finding="record") as guard:
        tracked = batches(make(**options)), streams()
    assert guard.findings == ()
    assert not guard._fence.fault
    assert without[1] == tracked[1]
    return without[0], tracked[0], list(everybit.open_run(run).samples())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_loader(kind: str, workers: int, tmp_path: Path) -> None:
    make, order = KINDS[kind]
    without, tracked, records = both(make, tmp_path / "run", num_workers=workers)
    assert without == tracked
    assert len(records) == len(tracked)
    assert [each.batch for each in records[: len(records) // 2]] == list(range(len(records) // 2))
    assert {each.epoch for each in records} == {0, 1}
    assert {each.worker for each in records} <= ({0, 1} if workers else {-1})
    assert all(each.worker_rng for each in records)
    assert all(each.batch_digest for each in records)
    assert (records[0].indices is None) == (order is Order.ITERABLE)
    (told,) = [
        each
        for each in everybit.open_run(tmp_path / "run").log().observations
        if each.kind == "loader"
    ]
    assert told.data["order"] == order


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_not_forked(method: str, tmp_path: Path) -> None:
    make = partial(loader, batch_size=6, shuffle=True, num_workers=1)
    model = torch.nn.Linear(1, 1)
    seed()
    without = batches(make(), 1)
    seed()
    with everybit.Guard(model, run=tmp_path / "run"):
        assert batches(make(multiprocessing_context=method), 1) == without
    records = list(everybit.open_run(tmp_path / "run").samples())
    assert len(records) == 4
    assert all(len(each.sample_digests) == 6 for each in records)


def test_workers_that_stay_and_fetch_ahead(tmp_path: Path) -> None:
    make = partial(loader, batch_size=4, shuffle=True, persistent_workers=True, prefetch_factor=4)
    without, tracked, records = both(make, tmp_path / "run", num_workers=2)
    assert without == tracked
    assert sorted(each.worker for each in records) == [0] * 6 + [1] * 6


def test_batches_in_any_order(tmp_path: Path) -> None:
    make = partial(loader, batch_size=4, in_order=False)
    without, tracked, records = both(make, tmp_path / "run", num_workers=2)
    keys = Counter(tuple(each[1][1][1]) for each in tracked)
    assert keys == Counter(tuple(each[1][1][1]) for each in without)
    assert [list(each.indices or ()) for each in records] == [each[1][1][1] for each in tracked]


def test_a_web_dataset(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    pattern = str(tmp_path / "part-%d.tar")
    with webdataset.ShardWriter(pattern, maxcount=6, verbose=0) as sink:
        for index in range(12):
            sink.write({"__key__": f"s{index}", "cls": index, "txt": f"text {index}"})

    def make(**options: Any) -> Any:
        shards = str(tmp_path / "part-{0..1}.tar")
        data = webdataset.WebDataset(shards, shardshuffle=False).decode().to_tuple("cls", "txt")
        return DataLoader(data.batched(3), batch_size=None, **options)

    without, tracked, records = both(make, tmp_path / "run", num_workers=2)
    assert without == tracked
    assert len(records) == 8


def test_a_sample_has_the_same_word_wherever_it_is_made(tmp_path: Path) -> None:
    *_, here = both(tensors, tmp_path / "a")
    *_, there = both(tensors, tmp_path / "b", num_workers=2)
    words = {key: word for each in here for key, word in _words(each)}
    assert len(words) == 24
    assert words == {key: word for each in there for key, word in _words(each)}


def _words(record: SampleRecord) -> Any:
    return zip(record.indices or (), record.sample_digests, strict=True)


def test_what_is_iterated_by_hand(tmp_path: Path) -> None:
    items = [torch.arange(3.0), torch.ones(2)]
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run") as guard:
        tracked = guard.track(items, "inputs")
        assert len(tracked) == 2
        assert plain(list(tracked)) == plain(items)
    records = list(everybit.open_run(tmp_path / "run").samples())
    assert [(each.loader, each.batch) for each in records] == [("inputs", 0), ("inputs", 1)]
    assert records[0].batch_digest != records[1].batch_digest
    with pytest.raises(everybit.UsageError, match="cannot be iterated"):
        guard.track(3)


def test_an_iterator_outlives_the_guard(tmp_path: Path) -> None:
    seed()
    wanted = batches(loader(batch_size=4, num_workers=2), 1)
    model = torch.nn.Linear(1, 1)
    seed()
    kept = loader(batch_size=4, num_workers=2)
    with everybit.Guard(model, run=tmp_path / "run"):
        iterator = iter(kept)
        first = next(iterator)
    assert [plain(first), *map(plain, iterator)] == wanted
    assert len(list(everybit.open_run(tmp_path / "run").samples())) == 1


def test_guards_within_each_other(tmp_path: Path) -> None:
    seed()
    wanted = batches(loader(batch_size=4), 1)
    model = torch.nn.Linear(1, 1)
    seed()
    with (
        everybit.Guard(model, run=tmp_path / "a"),
        everybit.Guard(model, run=tmp_path / "b"),
    ):
        assert batches(loader(batch_size=4), 1) == wanted
    one, other = (list(everybit.open_run(tmp_path / name).samples()) for name in "ab")
    assert one == other
    assert len(one) == 6


def test_tracking_that_is_switched_off(tmp_path: Path) -> None:
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run", samples=False):
        batches(loader(batch_size=4), 1)
    assert list(everybit.open_run(tmp_path / "run").samples()) == []
