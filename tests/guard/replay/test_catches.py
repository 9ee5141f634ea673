"""Wrong numbers that a replay catches, where it says they began, and what it calls them."""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.replay.faults import Hit, flip, wrong_once
from tests.guard.replay.loops import GPT, next_token_loss
from torch import nn

import everybit
from everybit.guard.root_call import repeating

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding

AT = 2
RECORD: dict[str, Any] = {"replay_every": 1, "on_finding": "record"}


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.2)
        )
        self.last = nn.Linear(8 * 36, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x).flatten(1))


def gpt_loss(model: nn.Module) -> torch.Tensor:
    return next_token_loss(model, torch.randint(50, (4, 9)))


def cnn_loss(model: nn.Module) -> torch.Tensor:
    return nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(5, (4,)))


MODELS: dict[str, Any] = {"gpt": (GPT, gpt_loss), "cnn": (CNN, cnn_loss)}


def train(
    model: nn.Module, loss_of: Any, watch: Any, *, name: str = "", kind: str = "", seed: int = 0
) -> tuple[Hit, list[torch.Tensor]]:
    """Train to the step of the fault; returns what it hit, and what left the call at that step."""
    torch.manual_seed(0)
    rng = random.Random(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hit = Hit()
    left: list[torch.Tensor] = []
    with watch(model, optimizer):
        for step in range(AT + 1):
            part = model.get_submodule(name)
            faulty = wrong_once(part, kind, rng) if kind and step == AT else nullcontext(hit)
            with faulty as hit:
                optimizer.zero_grad()
                loss = loss_of(model)
                for tensor in hit.tensors:
                    hit.element, hit.bit = flip(tensor, rng)
                loss.backward()
                left = [loss.detach(), *(p.grad.clone() for p in model.parameters())]
                optimizer.step()
    return hit, left


def watching(run: Path, guards: list[everybit.Guard]) -> Any:
    def watch(*things: Any) -> everybit.Guard:
        guards.append(everybit.Guard(*things, run=run, replay_every=1, on_finding="record"))
        return guards[-1]

    return watch


def caught(guard: everybit.Guard) -> list[Finding]:
    return [each for each in guard.findings if each.rule in ("CMP701", "CMP703")]


@pytest.mark.parametrize("kind", ["activation", "gradient", "saved"])
@pytest.mark.parametrize("kind_of_model", MODELS)
def test_flips(kind_of_model: str, kind: str, tmp_path: Path) -> None:
    build, loss_of = MODELS[kind_of_model]
    torch.manual_seed(1)
    names = [name for name, part in build().named_modules() if name and not list(part.children())]
    # What the root returns is judged where the loss uses it: its gradient is not the call's own.
    names = [name for name in names if kind == "activation" or name not in ("head", "last")]
    num_caught = 0
    for seed in range(8):
        name = random.Random(seed).choice(names)
        torch.manual_seed(1)
        guards: list[everybit.Guard] = []
        watch = watching(tmp_path / str(seed), guards)
        hit, left = train(build(), loss_of, watch, name=name, kind=kind, seed=seed)
        torch.manual_seed(1)
        _, clean = train(build(), loss_of, lambda *_: nullcontext())
        changed = any(
            not one.view(torch.int32).equal(other.view(torch.int32))
            for one, other in zip(left, clean, strict=True)
        )
        found = caught(guards[0])
        if not changed:  # Masked: no bit of what leaves the call differs, but for its output.
            assert not found or name in ("head", "last")
            continue
        num_caught += 1
        (finding,) = found
        assert (finding.rule, finding.severity, finding.where.step) == ("CMP701", "error", AT)
        assert finding.evidence["verdict"] == "transient"
        assert finding.evidence["computations_that_agree"] == 3
        if kind != "saved":
            assert finding.where.module == name
        if kind == "activation":
            assert finding.where.elements == (hit.element,)
            (change,) = finding.evidence["changes"]
            assert change["bits"] == [hit.bit]
            assert finding.evidence["pattern"] == "single"
        elif kind == "saved" and "kept for backward" in finding.message:
            assert finding.where.elements == (hit.element,)
    assert num_caught >= 4


class Counts(nn.Module):
    """Adds into the same few rows from many: in what order depends on the threads."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.zeros(4, 8)
        places = torch.arange(len(x)) % 4
        return self.last(rows.index_put((places,), x, accumulate=True))


def test_additions_in_no_order_are_nondeterministic_not_corrupt(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(0)
        model = Counts()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        guard = everybit.Guard(
            model, optimizer, run=tmp_path / "run", replay_every=1, on_finding="record"
        )
        with guard:
            for _ in range(12):
                optimizer.zero_grad()
                model(torch.randn(60_000, 8)).square().mean().backward()
                optimizer.step()
    finally:
        torch.set_num_threads(threads)
    assert not any(each.severity == "error" for each in guard.findings)
    found = caught(guard)
    if found:  # It may happen to repeat.
        (finding,) = found
        assert (finding.rule, finding.severity) == ("CMP703", "note")
        assert finding.evidence["verdict"] == "nondeterministic"
        assert finding.evidence["operation"] in ("index_put", "_index_put_impl_")


class Flaky(nn.Module):
    """Computes something else each time (or only the first time): nobody's fault."""

    def __init__(self, *, only_first: bool) -> None:
        super().__init__()
        self.last = nn.Linear(4, 4)
        self.count = itertools.count(1)  # Nothing that could be put back.
        self.only_first = only_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = next(self.count)
        return self.last(x) * (1 + (number == 1) if self.only_first else number)


@pytest.mark.parametrize("only_first", [False, True])
def test_a_model_that_changes_on_its_own_is_no_hardware_fault(
    only_first: bool, tmp_path: Path
) -> None:
    model = Flaky(only_first=only_first)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", replay_every=1, on_finding="record"
    ) as guard:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    (finding,) = caught(guard)
    assert finding.severity != "error"
    assert finding.evidence["verdict"] == ("unproven" if only_first else "nondeterministic")
    assert finding.rule == ("CMP701" if only_first else "CMP703")


class Unlike(nn.Module):
    """Gives something else whenever it is repeated, and that the same each time."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x) * (2 if repeating() else 1)


def test_what_a_repeat_never_gets_is_told_once_and_is_no_fault(tmp_path: Path) -> None:
    model = Unlike()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", replay_every=1, on_finding="record"
    ) as guard:
        for _ in range(8):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    assert [str(each.severity) for each in caught(guard)] == ["warning", "note"]
    assert any("does not repeat" in each.why for each in guard.coverage.skipped)


def test_a_repeat_that_errs_is_told_and_the_step_stands(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = [0]
    forward = model[0].forward

    def once(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        output = forward(x)
        if calls[0] == 10:  # Step 4, the repeat.
            flip(output, random.Random(1))
        return output

    model[0].forward = once  # type: ignore[method-assign]
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", replay_every=1, on_finding="record"
    ) as guard:
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    (finding,) = caught(guard)
    assert (finding.where.step, finding.where.module) == (4, "0")
    assert finding.evidence["verdict"] == "repeat-erred"
    assert "the step is right" in finding.message


def test_an_output_that_changes_before_the_loss_is_seen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", **RECORD) as guard:
        for step in range(4):
            optimizer.zero_grad()
            output = model(torch.randn(8, 4))
            if step == 2:
                element, bit = flip(output, random.Random(2))
            output.square().mean().backward()
            optimizer.step()
    # The activation's own backward uses what it returned: its gradient differs first.
    (finding,) = caught(guard)
    assert finding.where.step == 2
    model = nn.Sequential(nn.Tanh(), nn.Linear(4, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path / "two", **RECORD) as guard:
        for step in range(4):
            optimizer.zero_grad()
            output = model(torch.randn(8, 4))
            if step == 2:
                element, bit = flip(output, random.Random(2))
            output.square().mean().backward()
            optimizer.step()
    (finding,) = caught(guard)
    assert (finding.severity, finding.evidence["verdict"]) == ("warning", "changed-after")
    assert finding.where.elements == (element,)
    assert finding.evidence["changes"][0]["bits"] == [bit]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_evaluation_is_repeated_too(mode: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = CNN().eval()
    rng = random.Random(0)
    with everybit.Guard(model, run=tmp_path / "run", **RECORD) as guard, mode():
        for step in range(4):
            if step == 2:
                with wrong_once(model.last, "activation", rng) as hit:
                    model(torch.randn(4, 3, 8, 8))
            else:
                model(torch.randn(4, 3, 8, 8))
    (finding,) = caught(guard)
    assert (finding.severity, finding.where.step, finding.where.module) == ("error", 2, "last")
    assert finding.where.elements == (hit.element,)
    checked = {each.what: each.count for each in guard.verdict.coverage.checked}
    assert checked["calls of a model computed again"] == 4


def test_a_note_neither_stops_nor_silences(tmp_path: Path) -> None:
    model = Flaky(only_first=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = {"on_finding": "stop", "replay_every": 1}
    with everybit.Guard(model, optimizer, run=tmp_path / "run", **settings) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    assert guard.step == 3
    assert [each.rule for each in guard.findings] == ["CMP703"]


def test_sampled_and_switched_off(tmp_path: Path) -> None:
    for every, wanted in ((3, 3), (0, None)):
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = tmp_path / str(every)
        with everybit.Guard(
            model, optimizer, run=run, replay_every=every, on_finding="record"
        ) as guard:
            for _ in range(7):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
        checked = guard.verdict.coverage.checked
        counts = [each.count for each in checked if each.what.startswith("calls of a model")]
        assert counts == ([wanted] if wanted else [])
