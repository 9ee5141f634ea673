"""Damage of many words, in one tensor or several at once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, places_of, train_step

import everybit
from everybit import inject
from everybit.core.dtype import ITEMSIZE
from everybit.core.grid import BLOCK_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.inject import Injection

PATTERNS = ["stray-write", "strided", "multi-bit", "stuck"]
NUM_DAMAGES = 500  # of each dtype
A_STEP = 5  # of them between two updates


def damage(rng: random.Random, seed: int, model: Any, optimizer: Any) -> list[Injection]:
    """Plant one damage: in one tensor, or now and then in two or three at once."""
    planted: dict[tuple[str, str], Injection] = {}
    wanted = rng.choice([1, 1, 1, 2, 3])
    while len(planted) < wanted:
        seed += 10_000
        pattern = rng.choice(PATTERNS)
        count = rng.choice([None, None, 2, 8, 300, 2000]) if pattern != "stuck" else None
        where = rng.choice([None, "3.weight*", "0.weight*", "weight", "buffer", "state"])
        where = inject.TargetKind(where) if where in ("weight", "buffer", "state") else where
        try:
            fault = inject.draw_fault(
                model, optimizer, seed=seed, pattern=pattern, num_elements=count, where=where
            )
        except everybit.UsageError:  # more elements than the tensor drawn has
            continue
        if (fault.parameter, fault.tensor) in planted:
            continue
        injection = inject.apply(fault, model, optimizer)
        if injection.changes:
            planted[fault.parameter, fault.tensor] = injection
    return list(planted.values())


def indices(finding: Finding) -> set[int]:
    where = finding.where
    if where.elements is not None:
        return set(where.elements)
    return {i for start, end in where.element_ranges for i in range(start, end)}


def check_place(finding: Finding, injection: Injection) -> None:
    """The place named is the damage's; where only rows are known, each holds some of it."""
    truth = {change.element for change in injection.changes}
    if finding.evidence["confirmed"]:
        assert indices(finding) == truth
        assert finding.evidence["num_elements"] == len(truth)
        assert finding.evidence["num_bits"] == sum(len(c.bits) for c in injection.changes)
        told = {c["element"]: tuple(c["bits"]) for c in finding.evidence["changes"]}
        assert told.items() <= {c.element: c.bits for c in injection.changes}.items()
        assert len(told) == min(16, len(truth))
    else:
        assert finding.evidence["located_by"] == "rows"
        size = ITEMSIZE[finding.evidence["dtype"]]
        for start, end in finding.where.element_ranges:
            assert truth & set(range(start, end))
        blocks = {index * size // BLOCK_BYTES for index in indices(finding)}
        assert {index * size // BLOCK_BYTES for index in truth} <= blocks


@pytest.fixture(autouse=True)
def _quick_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    # It reads the process's memory map before each write; nothing here is mapped read-only.
    monkeypatch.setattr("everybit.inject.memory._check_writable", lambda *_: None)


@pytest.mark.parametrize("shadow", [True, False], ids=["shadow", "no shadow"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_damages_of_many_words(
    dtype: torch.dtype, shadow: bool, tmp_path: Path, caplog: Any
) -> None:
    num_damages = NUM_DAMAGES if shadow else NUM_DAMAGES // 4
    model, optimizer = build(dtype)
    for _ in range(num_damages // A_STEP + 2):
        train_step(model, optimizer)
    clean = bits_of(model, optimizer)

    model, optimizer = build(dtype)
    caplog.set_level("ERROR", "everybit")
    rng = random.Random(2)
    tensors = healed = by_rows = several = 0
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", on_finding="heal", shadow=shadow
    ) as guard:
        for _ in range(2):
            train_step(model, optimizer)
        names = {(p.parameter, p.state or ""): p.tensor for p in places_of(model, optimizer)}
        for count in range(num_damages):
            guard._course.journal.findings.clear()
            right = {key: tensor.detach().clone() for key, tensor in names.items()}
            injections = damage(rng, count, model, optimizer)
            # All is tested here, so that what is not healed can be taken back before its use.
            guard._course.test()
            found = {(f.where.parameter, f.where.tensor or ""): f for f in guard.findings}
            assert len(found) == len(guard.findings) == len(injections)
            several += len(injections) > 1
            for injection in injections:
                key = (injection.fault.parameter, injection.fault.tensor)
                finding = found[key]
                assert finding.where.step == 2 + count // A_STEP
                check_place(finding, injection)
                tensors += 1
                if finding.evidence["healed"]:
                    healed += 1
                    assert "right bits are back" in finding.message
                    undone = injection.undo()
                    assert undone.restored == 0, "a claim to have healed that is not true"
                    now, before = (
                        t.reshape(-1).view(torch.uint8) for t in (names[key], right[key])
                    )
                    assert torch.equal(now, before)
                else:
                    by_rows += 1
                    assert "right bits are back" not in finding.message
                    assert injection.undo().left == 0
                    guard.rebaseline()
            if count % A_STEP == A_STEP - 1:
                train_step(model, optimizer)
    assert guard._course.journal.num_findings == tensors
    assert bits_of(model, optimizer) == clean
    if shadow:
        assert healed == tensors
    assert healed > tensors // 2
    assert several > num_damages // 4
    print(
        f"{dtype} {shadow=}: {num_damages} damages in {tensors} tensors caught, "
        f"{healed} healed, {by_rows} named by their rows"
    )
