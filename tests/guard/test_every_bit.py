"""Each bit position of every carried tensor at rest: caught, named, healed, nothing changed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, check_named, flip, places_of, train_step

import everybit

if TYPE_CHECKING:
    from pathlib import Path

FIRST = 2
#: Flips a step, each in another tensor.
AT_ONCE = 3


def plan(model: Any, optimizer: Any) -> list[list[tuple[int, int, int]]]:
    """(tensor, element, bit) for every bit position of every tensor, a few tensors a step."""
    rng = random.Random(1)
    left = [
        [(index, rng.randrange(place.tensor.numel()), bit) for bit in range(place.width)]
        for index, place in enumerate(places_of(model, optimizer))
    ]
    steps = []
    while any(left):
        fullest = sorted(filter(None, left), key=len, reverse=True)[:AT_ONCE]
        steps.append([flips.pop(rng.randrange(len(flips))) for flips in fullest])
    return steps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_flip_at_every_bit_position(dtype: torch.dtype, tmp_path: Path, caplog: Any) -> None:
    model, optimizer = build(dtype)
    for _ in range(FIRST):
        train_step(model, optimizer)
    steps = plan(model, optimizer)
    for _ in steps:
        train_step(model, optimizer)
    clean = bits_of(model, optimizer)

    caplog.set_level("ERROR", "everybit")
    model, optimizer = build(dtype)
    roles = dict.fromkeys(("parameter", "buffer", "state"), 0)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        for _ in range(FIRST):
            train_step(model, optimizer)
        places = list(places_of(model, optimizer))
        assert len(places) == 6 + 3 + 18
        for count, flips in enumerate(steps):
            assert guard.step == FIRST + count
            guard._course.journal.findings.clear()  # it keeps the first thousand only
            for index, element, bit in flips:
                flip(places[index].tensor, element, bit)
            train_step(model, optimizer)
            found = {(f.where.parameter, f.where.tensor): f for f in guard.findings}
            assert len(found) == len(guard.findings) == len(flips)
            for index, element, bit in flips:
                place = places[index]
                finding = found[place.parameter, place.state]
                check_named(finding, place, element, (bit,))
                assert finding.where.step == FIRST + count
                assert finding.evidence["healed"]
                assert not finding.evidence["tainted"], place.name
                assert finding.where.optimizer == ("AdamW" if place.kind == "state" else None)
                roles[place.kind] += 1
    total = sum(map(len, steps))
    assert guard._course.journal.num_findings == total == sum(roles.values())
    assert bits_of(model, optimizer) == clean
    print(f"{dtype}: {total} flips caught, named and healed: {roles}")
