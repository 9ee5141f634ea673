"""Activation checkpointing computes twice: the Guard compares."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import everybit


class Block(nn.Module):
    """Linear, normalisation and dropout, with one fault at a call of one's choice."""

    def __init__(self, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = norm(16)
        self.drop = nn.Dropout(0.2)
        self.down = nn.Linear(16, 8)
        self.calls = 0
        self.bad_call = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.up(x)))
        if self.calls == self.bad_call:
            hidden = hidden + torch.zeros_like(hidden).index_fill(0, torch.tensor([1]), 0.5)
        self.calls += 1
        return x + self.down(self.drop(hidden))


class Net(nn.Module):
    def __init__(self, *, reentrant: bool, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(norm) for _ in range(2))
        self.head = nn.Linear(8, 1)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x)


def train(net: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
        loss = net(x.requires_grad_()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def watched(tmp_path, net, steps=6):
    with everybit.Guard(run=tmp_path, on_finding="record", replay_every=1) as guard:
        losses = train(net, steps)
    return guard, losses


def compared(guard) -> int:
    counts = {each.what: each.count for each in guard.coverage.checked}
    return counts.get("activations computed twice", 0)


def recomputed(guard) -> list[everybit.Finding]:
    return [each for each in guard.findings if each.rule in ("CMP702", "CMP703")]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_what_repeats_is_quiet_and_unchanged(tmp_path, reentrant, norm):
    torch.manual_seed(0)
    plain = train(Net(reentrant=reentrant, norm=norm), 6)
    torch.manual_seed(0)
    guard, losses = watched(tmp_path, Net(reentrant=reentrant, norm=norm))
    assert losses == plain
    assert not recomputed(guard)
    assert compared(guard) >= 12


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("bad_call", [8, 9])
def test_a_fault_in_either_computation_is_found(tmp_path, reentrant, bad_call):
    torch.manual_seed(0)
    net = Net(reentrant=reentrant)
    net.blocks[1].bad_call = bad_call
    guard, _ = watched(tmp_path, net, steps=8)
    found = recomputed(guard)
    assert [each.rule for each in found] == ["CMP702"]
    assert found[0].where.module == "blocks.1"
    assert found[0].evidence["repeated_exactly"] >= 3


def test_a_fault_before_it_has_ever_repeated_is_told_once_it_has(tmp_path):
    torch.manual_seed(0)
    net = Net(reentrant=False)
    net.blocks[0].bad_call = 0
    guard, _ = watched(tmp_path, net)
    (found,) = recomputed(guard)
    assert (found.rule, found.where.step, found.where.module) == ("CMP702", 0, "blocks.0")


def test_a_fault_that_nothing_followed_is_not_called_checked(tmp_path):
    torch.manual_seed(0)
    net = Net(reentrant=False)
    net.blocks[0].bad_call = 0
    guard, _ = watched(tmp_path, net, steps=1)
    assert not recomputed(guard)
    assert any("recomputation of Block at step 0" in each.what for each in guard.coverage.skipped)


def test_a_function_that_never_repeats_is_no_corruption(tmp_path):
    class Noisy(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = checkpoint(self.noisy, x, use_reentrant=False, preserve_rng_state=False)
            return self.head(self.blocks[0](x))

        def noisy(self, x: torch.Tensor) -> torch.Tensor:
            return (x * torch.rand(8)).exp()

    torch.manual_seed(0)
    guard, _ = watched(tmp_path, Noisy(reentrant=False))
    (found,) = recomputed(guard)
    assert found.rule == "CMP703"
    assert found.severity is everybit.Severity.NOTE


def test_checkpointing_is_left_as_it_was(tmp_path):
    from torch.utils import checkpoint as module

    before = (
        module._CheckpointFrame.__init__,
        module._CheckpointFrame.check_recomputed_tensors_match,
        module.CheckpointFunction.forward,
    )
    watched(tmp_path, Net(reentrant=False), steps=1)
    assert before == (
        module._CheckpointFrame.__init__,
        module._CheckpointFrame.check_recomputed_tensors_match,
        module.CheckpointFunction.forward,
    )
