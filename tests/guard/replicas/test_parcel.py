"""A recorded call goes to another replica and gives the same bits there, and nothing stays."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from everybit.core.boundary import Boundary
from everybit.guard.moment import Moment
from everybit.guard.replay import CannotRepeatError, compare
from everybit.guard.replay.check import ReplayCheck
from everybit.guard.replicas.parcel import Parcel, digest_of, pack_call, repeat_parcel

if TYPE_CHECKING:
    from everybit.guard.replay.record import CallRecord


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 3)
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: torch.Tensor, scale: Any) -> torch.Tensor:
        y = self.drop(self.norm(self.first(x)))
        return self.shift + self.last(y) * (scale["by"] + random.random() + np.random.rand())


def recorded(model: torch.nn.Module, seed: int, then: Any) -> None:
    """Make a call as a training loop does, and hand its record on before it is let go of."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    check = ReplayCheck(rank=0, every=1, audit=lambda record: then(record) or ())
    x = torch.randn(5, 6, requires_grad=True)
    check(Boundary.FORWARD_START, Moment(step=0, root=model))
    loss = model(x, {"by": 2.0}).square().sum()
    check(Boundary.FORWARD_END, Moment(step=0, root=model))
    check(Boundary.BACKWARD_START, Moment(step=0, losses=(loss,)))
    loss.backward()
    check(Boundary.BACKWARD_END, Moment(step=0, losses=(loss,)))
    assert not check.coverage().skipped, check.coverage()
    check.close()


def both(one: torch.nn.Module, other: torch.nn.Module, look: Any) -> None:
    """Call `look(parcel of one's call, other's own record)`."""
    sent: list[bytes] = []
    recorded(one, 1, lambda record: sent.append(pack_call(record).to_bytes()))
    recorded(other, 2, lambda record: look(Parcel.from_bytes(sent[0]), record))
    assert sent


def test_the_same_bits_elsewhere() -> None:
    torch.manual_seed(0)
    one = Net()
    other = copy.deepcopy(one)
    other.shift.fill_(5.0)  # Buffers may differ: the call goes with its own.
    seen = []

    def look(parcel: Parcel, own: CallRecord) -> None:
        before = {name: t.clone() for name, t in other.state_dict().items()}
        states = random.getstate(), torch.get_rng_state()
        mine = digest_of(own)
        record, repeated = repeat_parcel(parcel, own)
        assert compare(record, repeated) is None
        assert digest_of(repeated, record) == parcel.digest != mine
        assert random.getstate() == states[0]
        assert torch.equal(torch.get_rng_state(), states[1])
        assert all(torch.equal(before[name], t) for name, t in other.state_dict().items())
        assert digest_of(own) == mine
        seen.append(parcel)

    both(one, other, look)
    assert seen


def test_a_replica_that_computes_wrong_is_seen_and_placed() -> None:
    torch.manual_seed(0)
    one = Net()
    other = copy.deepcopy(one)
    right = other.last.forward

    def wrong(x: torch.Tensor) -> torch.Tensor:
        out = right(x)
        out.data[0, 0] += 1.0
        return out

    other.last.forward = wrong  # type: ignore[method-assign]
    seen = []

    def look(parcel: Parcel, own: CallRecord) -> None:
        record, repeated = repeat_parcel(parcel, own)
        difference = compare(record, repeated)
        assert difference is not None
        assert difference.module == "last"
        assert digest_of(repeated, record) != parcel.digest
        seen.append(parcel)

    both(one, other, look)
    assert seen


@pytest.mark.parametrize("what", ["weights", "threads"])
def test_ranks_that_are_not_alike_are_not_compared(what: str) -> None:
    torch.manual_seed(0)
    one = Net()
    other = copy.deepcopy(one)
    if what == "weights":
        with torch.no_grad():
            other.last.bias.add_(1)
    seen = []

    def look(parcel: Parcel, own: CallRecord) -> None:
        if what == "threads":
            parcel.facts["the number of threads"] = "77"
        with pytest.raises(CannotRepeatError, match=what):
            repeat_parcel(parcel, own)
        seen.append(parcel)

    both(one, other, look)
    assert seen
