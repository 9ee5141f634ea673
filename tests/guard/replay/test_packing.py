"""Whether saved tensors are packed by hooks: as torch tells it, and under a torch that does not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from everybit.guard.replay.obstacles import why_not_now
from everybit.guard.replay.packing import _COMES, _GOES, _TOLD, count_hooks, is_packed

if TYPE_CHECKING:
    import pytest

WHY = "saved tensors are packed by hooks of the program"


def in_a_thread() -> str:
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(why_not_now()))
    thread.start()
    thread.join()
    return told[0]


def look() -> list[str]:
    hooks = torch.autograd.graph.saved_tensors_hooks
    told = [why_not_now()]
    with hooks(lambda t: t, lambda t: t):
        with hooks(lambda t: t, lambda t: t):
            told.append(why_not_now())
        told += [why_not_now(), in_a_thread()]
    return [*told, why_not_now()]


def test_torch_tells() -> None:
    assert look() == ["", WHY, WHY, "", ""]


def test_a_torch_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    # What torch 2.6 has: hooks come and go, and nobody can ask for them.
    autograd = torch._C._autograd
    for name in (_COMES, _GOES):
        monkeypatch.setattr(autograd, name, getattr(autograd, name))  # Put back afterwards.
    monkeypatch.delattr(autograd, _TOLD)
    assert not is_packed()
    count_hooks()
    counted = getattr(autograd, _COMES)
    assert look() == ["", WHY, WHY, "", ""]
    count_hooks()
    assert getattr(autograd, _COMES) is counted
    # A loop trains as before, and what hooks do is done once.
    calls: list[int] = []

    def pack(value: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return value

    weight = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = (weight * weight).sum()
        assert why_not_now() == WHY
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]
    assert len(calls) == 2
