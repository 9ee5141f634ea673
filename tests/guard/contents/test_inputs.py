"""Inputs that are not finite, and what looks like it; batches written on purpose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import everybit


class Replaces(nn.Module):
    """Has a value of its own for what is missing."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.nan_to_num(x, nan=0.0))


def train(model, batches, tmp_path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for batch in batches:
            model(batch).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not guard._fence.fault
    return [(finding.rule, str(finding.severity)) for finding in guard.findings]


def holding(value, place=5):
    batches = [torch.ones(3, 4) for _ in range(4)]
    batches[1].view(-1)[place] = value
    return batches


def test_missing_values_that_the_model_replaces_are_a_warning_once(tmp_path):
    batches = [*holding(np.nan), *holding(np.nan)]
    assert train(Replaces(), batches, tmp_path) == [("DAT408", "warning")]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_ruin_the_loss_are_an_error(value, tmp_path):
    assert train(nn.Linear(4, 2), holding(value), tmp_path) == [("DAT408", "error")]


def test_a_sum_that_overflows_is_no_value(tmp_path):
    large = torch.full((3, 4), 60_000.0).half()
    assert train(nn.Linear(4, 2).half(), [large * 0 + 1, large * 0 + 2], tmp_path) == []
    huge = torch.full((3, 4), 3e38)
    model = nn.Linear(4, 2)
    with everybit.Guard(model, run=tmp_path / "other") as guard, torch.no_grad():
        model.eval()
        model(huge)
    assert not [each for each in guard.findings if each.rule == "DAT408"]


def test_an_evaluation_that_is_given_nan(tmp_path):
    model = nn.Linear(4, 2).eval()
    with everybit.Guard(model, run=tmp_path / "run") as guard, torch.no_grad():
        for batch in holding(np.nan):
            model(batch)
    (finding,) = guard.findings
    assert (finding.rule, finding.where.step) == ("DAT408", 1)
    assert finding.evidence["rows"] == [1]


def test_ids_that_were_wrapped_are_named_where_the_call_fails(tmp_path):
    model = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(12, 2))
    ids = torch.tensor([[1, 2, 3], [4, -9, 6]])
    with pytest.raises(IndexError), everybit.Guard(model, run=tmp_path / "run") as guard:
        model(ids)
    (finding,) = guard.findings
    assert finding.rule == "DAT412"
    assert "id -9 (a wrapped 16-bit number?)" in finding.message


@pytest.mark.parametrize("through", ["torch", "numpy"])
def test_a_batch_that_the_loop_writes_itself(through, tmp_path):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(torch.arange(64.0).view(16, 4), batch_size=4)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for batch in loader:
            if through == "torch":
                batch.div_(64)
            else:
                batch.numpy()[:] /= 64
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    found = {(finding.rule, str(finding.severity)) for finding in guard.findings}
    # Past torch it cannot be told from damage: a warning, no more.
    assert found == (set() if through == "torch" else {("DAT405", "warning")})
