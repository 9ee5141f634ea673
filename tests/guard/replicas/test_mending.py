"""Two copies of a tensor: what differs is placed by sums, and healed by them or by blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from everybit.core.damage import Role
from everybit.guard.marks import Marks
from everybit.guard.replicas.mending import Mending, Right, pack, unpack
from everybit.guard.replicas.snapshot import Place
from everybit.guard.tracked import Tracked


def place_of(tensor: torch.Tensor) -> Place:
    marks = Marks([Tracked(Role.PARAMETER, tensor, {"w": tensor}, "w", "w")])
    marks.take()
    return Place(marks, 0, marks.frozen())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [7, 300, 100_000])
@pytest.mark.parametrize("elements", [[3], [0, 6], list(range(0, 7, 2))])
def test_heals(dtype: torch.dtype, size: int, elements: list[int]) -> None:
    right = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype)
    wrong = right.clone()
    places = [element * (size // 7) for element in elements]
    wrong[places] *= 1.5
    theirs = unpack(pack({"w": Right.of(place_of(right))}))["w"]
    mending = Mending(place_of(wrong), theirs, lasting=True)
    if mending.wanted:
        mending.patch(place_of(right).block_bytes(mending.wanted))
    damage = mending.damage(heal=True)
    assert damage.healed
    assert damage.elements == tuple(places)
    assert torch.equal(wrong, right)


def test_sums_alone_place_what_has_moved_on() -> None:
    right = torch.randn(5000, generator=torch.Generator().manual_seed(0))
    wrong = right.clone()
    wrong[4321] *= -1
    theirs = Right.of(place_of(right))
    mending = Mending(place_of(wrong), theirs, lasting=False)
    assert mending.wanted == []
    damage = mending.damage(heal=True)
    assert not damage.healed
    assert damage.elements == (4321,)
    assert not torch.equal(wrong, right)


def test_wrong_bytes_are_never_put_in() -> None:
    right = torch.zeros(100_000)
    wrong = right.clone()
    wrong[::100] = 1.0
    mending = Mending(place_of(wrong), Right.of(place_of(right)), lasting=True)
    assert mending.wanted
    mending.patch(np.ones(len(mending.wanted) * 255_016, np.uint8).tobytes())
    damage = mending.damage(heal=True)
    assert not damage.healed
    assert float(wrong.sum()) == 1000.0
    assert damage.element_ranges


def test_a_note_that_is_no_note() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(b"PK\x03\x04 nothing")
