"""A gradient norm that is doubted under DDP: each rank makes its own part again."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import run_forked
from tests.guard.test_ranks import ranks

from everybit.guard.replay.late import EXACTLY

if TYPE_CHECKING:
    from pathlib import Path

AT = 40

SCRIPT = """
    import contextlib, json, sys, warnings
    import torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit
    from everybit.guard.replay.standby import Affordable

    warnings.simplefilter("ignore")
    Affordable.now = True  # A quick record costs much beside the steps of so small a model.
    AT, STEPS = 40, 42
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    results = {}

    def loss_of(model, step, factor):
        # Steep, and of the usual value: the norm jumps, the loss does not.
        outputs = model(torch.randn(32, 16))
        centred = outputs - outputs.detach()
        return outputs.detach().abs().mean() + (factor if step == AT else 1.0) * centred.mean()

    def err_once(model):
        def once(_module, _args, output):
            handle.remove()
            output.register_hook(lambda gradient: 1e4 * gradient)

        once.__module__ = "torch.testing"  # As the device itself would err.
        handle = model.module[0].register_forward_hook(once)

    def train(name, factor=1e4, micro_batches=1, sync=False, wrong=None, watched=True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 4))
        model = DDP(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        torch.manual_seed(100 + rank)
        settings = {"on_finding": "record", "replay_every": 0, "patience_s": 20}
        guard = everybit.Guard(model, optimizer, run=f"runs/{name}", **settings)
        with guard if watched else contextlib.nullcontext():
            for step in range(STEPS):
                optimizer.zero_grad()
                for number in range(micro_batches):
                    last = sync or number == micro_batches - 1
                    with contextlib.nullcontext() if last else model.no_sync():
                        if step == AT and rank == wrong and last:
                            err_once(model)
                        loss_of(model, step, factor).backward()
                optimizer.step()
        dist.barrier()
        results[name] = {
            "findings": [each.to_json() for each in guard.findings],
            "weights": [p.detach().double().sum().item().hex() for p in model.parameters()],
            "checked": {c.what: c.count for c in guard.coverage.checked} if watched else {},
        }

    train("bare", micro_batches=2, watched=False)
    train("steep")
    train("accumulated", micro_batches=2)
    train("reduced_twice", micro_batches=2, sync=True)
    train("wrong", factor=1.0, wrong=1)
    with open(f"results.{rank}", "w") as file:
        json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("late")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    ended = run_forked(place, ranks("late", []))
    assert {code for code, _, _ in ended.values()} == {0}, ended
    return [json.loads((place / f"results.{rank}").read_text()) for rank in range(2)]


def norms_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in result["findings"] if each["rule"] == "NUM504"]


@pytest.mark.parametrize("kind", ["steep", "accumulated", "reduced_twice"])
def test_each_rank_repeats_what_it_has_put_in(results: list[dict[str, Any]], kind: str) -> None:
    for each in results:
        (finding,) = norms_of(each[kind])
        assert finding["where"]["step"] == AT
        assert finding["evidence"]["replayed"] == EXACTLY
        assert "this rank's part gives the same bits" in finding["message"]
        assert each[kind]["checked"]["steps computed again for their gradients"] == 1
    assert results[0]["accumulated"]["weights"] == results[0]["bare"]["weights"]


def test_the_rank_that_has_erred_finds_it(results: list[dict[str, Any]]) -> None:
    right, wrong = (norms_of(each["wrong"])[0] for each in results)
    assert right["evidence"]["replayed"] == EXACTLY
    assert wrong["evidence"]["replayed"].startswith("differently: the gradient of 0.")
    assert "not its device" not in wrong["message"]
