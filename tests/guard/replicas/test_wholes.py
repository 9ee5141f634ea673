"""One model in copies, in shards and in one process: their records compare, tensor by tensor."""

from __future__ import annotations

import json
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.forked import Job, run_forked
from tests.guard.replicas.ranks_script import three_ranks

import everybit
from everybit.core.grid import GridSums
from everybit.core.link import Link
from everybit.guard.replicas import wholes
from everybit.guard.replicas.whole import _sums_on_device
from everybit.guard.replicas.wholes import MOST_EVERY, Plan
from everybit.ledger import open_run
from everybit.probe.memory import TensorMemory

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.verdict import Verdict

STEPS, AT = 5, 3

SCRIPT = """
    import ctypes, json, os, warnings
    import torch, torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit

    warnings.simplefilter("ignore")
    many = "RANK" in os.environ
    if many:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if many else 0

    def shard(model):
        for part in (model[0], model[2], model):
            fully_shard(part)
        return model

    def train(run, wrap=lambda model: model, kind=torch.optim.AdamW, wrong=False, **settings):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(nn.Linear(20, 301), nn.ReLU(), nn.Linear(301, 9)))
        optimizer = kind(model.parameters(), lr=1e-2)
        step = 0

        def update_ends(*_):  # Inside the update: nothing that one run keeps sees it.
            if wrong and step == 3 and rank == 1:
                part = model[0].weight._local_tensor
                ctypes.c_ubyte.from_address(part.data_ptr() + 4 * 77 + 2).value ^= 0x40

        optimizer.register_step_post_hook(update_ends)
        torch.manual_seed(7)
        settings = {"on_finding": "warn", "patience_s": 20, "replay_every": 0, **settings}
        with everybit.Guard(model, optimizer, run=f"runs/{run}", **settings) as guard:
            for step in range(5):
                batch = torch.randn(8, 20)
                model(batch[rank::2] if many else batch).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        if many:
            dist.barrier()
        return {"findings": len(guard.findings), "skipped": {s.what: s.why for s in
                guard.coverage.skipped}, "checked": {c.what: c.count for c in
                guard.coverage.checked}}

    if many:
        unlike = torch.optim.AdamW if rank else torch.optim.SGD
        results = {
            "copies": train("copies", DDP),
            "shards": train("shards", shard),
            "waiting": train("waiting", shard, on_finding="heal"),
            "wrong": train("wrong", shard, wrong=True),
            "unlike": train("unlike", shard, unlike),
            "silent": train("silent", shard, replicas_every=0),
        }
        with open(f"results.{rank}", "w") as file:
            json.dump(results, file)
        dist.destroy_process_group()
    else:
        train("alone")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("wholes")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    alone = Job(name="alone", script=["train.py"])
    ended = run_forked(place, [*three_ranks(world_size=2), alone])
    assert [code for code, _, _ in ended.values()] == [0] * 3, ended
    return place


@pytest.fixture(scope="module")
def results(place: Path) -> list[dict[str, Any]]:
    return [json.loads((place / f"results.{rank}").read_text()) for rank in range(2)]


def compared(place: Path, one: str, other: str) -> Verdict:
    return everybit.diff(place / "runs" / one, place / "runs" / other)


def why_not(verdict: Verdict) -> str:
    return next(s.why for s in verdict.coverage.skipped if s.what.startswith("tensors in shards"))


@pytest.mark.parametrize("name", ["shards", "waiting"])
def test_copies_and_shards_are_the_same_to_the_bit(
    place: Path, results: list[dict[str, Any]], name: str
) -> None:
    for each in results:
        assert each[name]["findings"] == 0
        # Four parameters to begin with; these, and two moments of each, after every update.
        assert each[name]["checked"]["digests of whole tensors in shards"] == 4 + STEPS * 12
    verdict = compared(place, "copies", name)
    assert verdict.first is None
    assert f"on record at {STEPS} of the steps" in why_not(verdict)
    assert verdict.stats["last_agreed_step"] == STEPS - 1
    # Loss and input of each step, and 12 digests; and what it began with.
    assert verdict.stats["values"] >= 2 * (4 + STEPS * 14)


def test_the_digests_are_those_that_a_run_with_copies_records(place: Path) -> None:
    from everybit.api.diff_shards import wholes_of

    copies, shards = (open_run(place / "runs" / name).log(1) for name in ("copies", "shards"))
    found = list(wholes_of(shards))
    assert [(each.step, each.link) for each in found] == [
        (0, Link.INIT),
        *((step, Link.UPDATE) for step in range(STEPS)),
    ]
    for each in found[1:]:
        record = copies.step(each.step)
        (table,) = [table for table in record.tables if table.link is Link.UPDATE]
        theirs = {name: word for name, word in table if "::step::" not in name}
        assert each.words == theirs


def test_a_flip_in_one_shard_is_named_by_parameter_and_step(
    place: Path, results: list[dict[str, Any]]
) -> None:
    assert [each["wrong"]["findings"] for each in results] == [0, 0]
    verdict = compared(place, "copies", "wrong")
    where = verdict.first.where
    assert (where.step, where.parameter, where.link) == (AT, "0.weight", "update")
    (finding,) = (each for each in verdict.findings if each.rule == "DIF181")
    assert finding.evidence["num_differing"] == 1
    assert verdict.stats["last_agreed_step"] == AT - 1


def test_one_process_begins_with_the_same_and_sums_otherwise(place: Path) -> None:
    verdict = compared(place, "alone", "shards")
    assert (verdict.first.where.step, verdict.first.where.link) == (0, "update")
    assert verdict.first.kind in ("noise", "unknown")
    assert {"ranks", "ranks.shards"} <= {each["entry"] for each in verdict.explained_by}


def test_ranks_that_hold_other_tensors_add_nothing_up(
    place: Path, results: list[dict[str, Any]]
) -> None:
    for each in results:
        # What they began with was the same; their optimizers keep other state.
        assert each["unlike"]["checked"]["digests of whole tensors in shards"] == 4
        why = each["unlike"]["skipped"]["digests of whole tensors"]
        assert why == "not all ranks hold shards of the same tensors"


def test_without_digests_of_whole_tensors_the_rest_is_compared(place: Path) -> None:
    verdict = compared(place, "copies", "silent")
    assert verdict.first is None
    assert "one has no digests of whole tensors" in why_not(verdict)


@pytest.mark.parametrize("start", [0, 3, 251, 31_877, 31_878, 70_000])
def test_sums_that_are_taken_on_a_device_are_those_of_the_host(start: int) -> None:
    whole = torch.randn(90_001, dtype=torch.float64)
    for part in (whole[start : start + 20_001], whole[start : start + 5]):
        offset = 8 * start
        host = GridSums.of(part.numpy().data, offset=offset, num_bytes=8 * len(whole))
        found = _sums_on_device(TensorMemory.of(part.clone()), offset, 8 * len(whole))
        assert found.equals(host)


def plan_of(*sizes: int) -> Plan:
    return Plan(tuple(SimpleNamespace(num_lanes=size) for size in sizes))  # type: ignore[arg-type]


def test_many_sums_are_added_up_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_of(100, 100).every == 1
    assert plan_of(4500, 4500).every == 3
    assert plan_of(1 << 30).every == MOST_EVERY
    monkeypatch.setattr(wholes, "_MAX_LANES", 100)
    assert plan_of(60, 60, 30, 200, 10).slices == [
        range(1),
        range(1, 3),
        range(3, 4),
        range(4, 5),
    ]
