"""Scripts without an optimizer: a step is a call, weights are scrubbed, answers are recorded."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
import torch
from tests.guard.watched import bits_of, build, flip, loss_of, train_step
from torch import nn

import everybit
from everybit.core.link import Link
from everybit.ledger import open_run
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from pathlib import Path


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 10))


def test_each_call_is_a_step_with_its_answers(tmp_path: Path) -> None:
    model = net().eval()
    with everybit.Guard(model, run=tmp_path) as guard, torch.no_grad():
        answers = [model(torch.full((4, 64), float(call))) for call in range(3)]
    assert guard.verdict.ok, guard.verdict
    assert guard.step == 3
    records = list(open_run(tmp_path).log().steps())
    assert [record.step for record in records] == [0, 1, 2]
    for record in records:
        tables = {table.link: table for table in record.tables}
        assert set(tables) == {Link.BATCH, Link.RNG, Link.OUTPUT}
        names = tuple(f"0[{i}]" for i in range(4))
        assert tables[Link.OUTPUT].names == names
        assert record.optimizer == ""
    rows = {record.tables[-1].words() for record in records}
    assert len(rows) == 3
    assert memory_words([answers[0][1]])  # readable


def test_a_flip_is_found_before_the_call_and_healed(tmp_path: Path) -> None:
    model, twin = net().eval(), net().eval()
    places = [("0.weight", 300, 30), ("1.running_var", 7, 28), ("3.bias", 2, 3), ("0.weight", 9, 0)]
    x = torch.randn(8, 64)
    with (
        everybit.Guard(model, run=tmp_path, on_finding="heal", scrub_percent=100) as guard,
        torch.no_grad(),
    ):
        wanted = twin(x)
        model(x)
        for name, element, bit in places:
            flip(model.state_dict()[name], element, bit)
            assert torch.equal(model(x), wanted)
    assert [(f.where.parameter, f.where.elements, f.where.step) for f in guard.findings] == [
        (name, (element,), step) for step, (name, element, _) in enumerate(places, 1)
    ]
    assert not any(f.evidence["tainted"] for f in guard.findings)
    assert bits_of(model) == bits_of(twin)


def test_within_a_budget_it_is_found_later_and_says_since_when(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(24)]).eval()
    x = torch.zeros(1, 256)
    with everybit.Guard(model, run=tmp_path, on_finding="heal") as guard, torch.inference_mode():
        for call in range(150):
            if call == 60:
                flip(model[11].weight, 77, 29)
            model(x)
    (finding,) = guard.findings
    assert finding.where.parameter == "11.weight"
    assert finding.evidence["healed"]
    assert finding.where.step >= 60
    if finding.evidence["tainted"]:
        assert finding.evidence["last_right"] < 60 + 1
        assert "last right at step" in finding.message


def test_what_no_call_tested_is_tested_at_the_end(tmp_path: Path) -> None:
    model = net().eval()
    with everybit.Guard(model, run=tmp_path) as guard, torch.no_grad():
        model(torch.zeros(2, 64))
        flip(model[0].weight, 5, 5)
    (finding,) = guard.findings
    assert (finding.where.step, finding.where.elements) == (1, (5,))


def test_the_budget_holds(tmp_path: Path) -> None:
    """Calls are short beside their weights: a test of everything would double their time."""
    torch.manual_seed(0)
    model = nn.Embedding(200_000, 64).eval()  # 51 MB, of which a call reads a few rows
    tokens = torch.zeros(1, dtype=torch.long)
    with everybit.Guard(model, run=tmp_path) as guard, torch.no_grad():
        model(tokens)
        model(tokens)
        began = time.thread_time()
        for _ in range(20):
            model(tokens)
        spent = time.thread_time() - began
    assert guard.verdict.ok
    # One tensor: it is tested whole, or not at all before the end.
    assert spent < 20 * 0.05


def test_evaluation_before_and_within_training(tmp_path: Path) -> None:
    """Calls count until an optimizer is known; from then on updates do."""
    model, _ = build()
    model.eval()
    with everybit.Guard(run=tmp_path) as guard:
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 16))
            model(torch.randn(4, 16))
        assert guard.step == 2
        model.train()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            train_step(model, optimizer)
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 16))
            model.train()
    assert guard.step == 4
    assert guard.verdict.ok, guard.verdict


def test_a_dry_run_before_training_is_no_step(tmp_path: Path) -> None:
    model, _ = build()
    with everybit.Guard(model, run=tmp_path) as guard:
        loss_of(model)
        assert guard.step == 0
    assert guard.verdict.status == "inconclusive"


def test_a_call_that_fails_is_no_step(tmp_path: Path) -> None:
    model = net().eval()
    with everybit.Guard(model, run=tmp_path) as guard, torch.no_grad():
        model(torch.zeros(2, 64))
        with contextlib.suppress(RuntimeError):
            model(torch.zeros(2, 63))
        model(torch.zeros(2, 64))
    assert guard.step == 2
    assert guard.verdict.ok


def test_two_models_and_weights_loaded_between(tmp_path: Path) -> None:
    first, second = net().eval(), net().eval()
    with everybit.Guard(first, second, run=tmp_path) as guard, torch.no_grad():
        for _ in range(3):
            second(first(torch.randn(4, 64)) @ torch.ones(10, 64))
        other = net()
        nn.init.normal_(other[0].weight)
        first.load_state_dict(other.state_dict())
        first(torch.randn(4, 64))
    assert guard.step == 7
    assert guard.verdict.ok, guard.verdict


SCRIPT = """
import sys
import pytest
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
model.eval()
data = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
if "--odd" in sys.argv:
    data[21, 3] += 1.0
right = 0
with torch.no_grad():
    for batch in data.split(16):
        right += int((model(batch).argmax(1) == 0).sum())
print("right", right)
"""


def test_an_unedited_script_is_watched_and_two_runs_are_compared_by_sample(tmp_path: Path) -> None:
    script = tmp_path / "evaluate.py"
    script.write_text(textwrap.dedent(SCRIPT))
    for name, args in (("a", []), ("b", []), ("c", ["--odd"])):
        done = subprocess.run(
            [sys.executable, "-m", "everybit", "run", "--run", tmp_path / name, script, *args],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("right ")
    run = open_run(tmp_path / "a")
    assert run.log().num_steps == 4
    assert everybit.diff(tmp_path / "a", tmp_path / "b").ok
    different = everybit.diff(tmp_path / "a", tmp_path / "c")
    (finding,) = different.findings
    assert finding.where.step == 1
    assert finding.where.link == "batch"


def test_samples_that_differ_are_named(tmp_path: Path) -> None:
    def nudge(_model: nn.Module, _args: object, output: torch.Tensor) -> torch.Tensor:
        return output.index_add(0, torch.tensor([4]), torch.full((1, 10), 1e-3))

    for name in ("a", "b"):
        model = net().eval()
        if name == "b":
            model.register_forward_hook(nudge)
        with everybit.Guard(model, run=tmp_path / name), torch.no_grad():
            for call in range(3):
                model(torch.full((6, 64), float(call)))
    (finding,) = everybit.diff(tmp_path / "a", tmp_path / "b").findings
    where = finding.where
    assert (where.step, where.link, where.sample) == (0, Link.OUTPUT, 4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_answers_of_all_kinds(tmp_path: Path) -> None:
    """Nested, sparse, quantised and meta tensors have no bytes to record; the rest goes on."""

    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.inner(x)
            return {
                "plain": y,
                "nested": torch.nested.nested_tensor([torch.ones(3), torch.ones(4)]),
                "sparse": y.to_sparse(),
                "quantised": torch.quantize_per_tensor(y, 0.1, 0, torch.qint8),
                "meta": y.to("meta"),
            }

    model = Many().eval()
    with everybit.Guard(model, run=tmp_path) as guard, torch.no_grad():
        for _ in range(3):
            model(torch.randn(40, 4))
    assert guard.verdict.ok, guard.verdict
    assert guard.step == 3
    unrecorded = [s.what for s in guard.coverage.skipped if "output" in s.what]
    assert len(unrecorded) == 4, unrecorded


class Cached(nn.Module):
    """Writes a buffer at every call, as a cache of keys and values does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("cache", torch.zeros(64, 8))
        self.register_buffer("table", torch.arange(1 << 20, dtype=torch.float32))
        self.norm = nn.InstanceNorm1d(4, track_running_stats=True)
        self.at = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache[self.at] = x * self.weight
        self.at += 1
        return self.cache.sum() + self.table[self.at] + self.norm(x.reshape(1, 4, 2)).sum()


@pytest.mark.parametrize("norm_trains", [False, True])
def test_buffers_that_calls_write_and_that_they_do_not(norm_trains: bool, tmp_path: Path) -> None:
    model = Cached().eval()
    model.norm.train(norm_trains)  # writes its statistics, and no counter moves
    with (
        everybit.Guard(model, run=tmp_path, on_finding="heal", scrub_percent=100) as guard,
        torch.no_grad(),
    ):
        for call in range(8):
            if call == 4:
                flip(model.table, 777, 20)
                flip(model.cache, 9, 30)
            model(torch.ones(8))
    places = {(f.where.parameter, f.where.step, f.where.elements) for f in guard.findings}
    assert places == {("table", 4, (777,)), ("cache", 4, (9,))}
    assert all(f.evidence["healed"] for f in guard.findings)
