"""The failing part alone: kept, read back, computed again."""

from __future__ import annotations

import json
import stat
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import everybit
from everybit.core.errors import PathError
from everybit.guard.capsule import Comparison, find_capsules, read_capsule, try_capsule
from everybit.guard.capsule.content import ForeignCodeError, decode, encode, find_imported


@contextmanager
def erring(layer: nn.Module, call: int, *, bit: int = 27, backward: bool = False):
    """A layer whose kernel errs in one call."""
    kind, calls = type(layer), []
    right = kind.forward

    def flipped(tensor):
        tensor.view(-1)[3:4].view(torch.int32).bitwise_xor_(1 << bit)
        return tensor

    def forward(self, *args, **kwargs):
        out = right(self, *args, **kwargs)
        if self is layer:
            if len(calls) == call and backward:
                out.register_hook(lambda grad: flipped(grad.clone()))
            elif len(calls) == call:
                with torch.no_grad():
                    flipped(out.detach())
            calls.append(1)
        return out

    kind.forward = forward
    try:
        yield
    finally:
        kind.forward = right


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.drop(self.down(self.act(self.up(x)))))


def erring_run(folder, layer: str, *, steps: int = 4, **facts) -> everybit.Guard:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    # The third call of the program: each step makes two, its own and the repeat.
    with (
        erring(model.get_submodule(layer), 4, **facts),
        everybit.Guard(model, optimizer, run=folder, on_finding="record", replay_every=1) as guard,
    ):
        for step in range(steps):
            x = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return guard


def finding_of(guard) -> everybit.Finding:
    (found,) = [each for each in guard.findings if each.rule == "CMP701"]
    return found


@pytest.mark.parametrize("layer", ["0.up", "0.norm", "0.act", "0.drop", "1"])
def test_a_failing_layer_is_kept_and_computes_right_elsewhere(tmp_path, layer):
    found = finding_of(erring_run(tmp_path, layer))
    assert found.where.module == layer, found
    folder = tmp_path / found.evidence["capsule"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert find_capsules(tmp_path, found.where.step) == [folder]
    capsule = read_capsule(folder)
    assert (capsule.module, capsule.step) == (layer, 2)
    attempt = try_capsule(capsule)
    assert attempt.comparison is Comparison.RIGHT
    assert attempt.differing == ()


def test_a_device_that_errs_alike_gives_the_suspected_result(tmp_path, monkeypatch):
    found = finding_of(erring_run(tmp_path, "0.up"))
    capsule = read_capsule(tmp_path / found.evidence["capsule"])
    right = nn.Linear.forward

    def wrong(self, x):
        out = right(self, x).clone()
        out.detach().view(-1)[3:4].view(torch.int32).bitwise_xor_(1 << 27)
        return out

    monkeypatch.setattr(nn.Linear, "forward", wrong)
    assert try_capsule(capsule).comparison is Comparison.FOUND


def test_rounding_elsewhere_is_told_from_the_fault_by_float64(tmp_path, monkeypatch):
    found = finding_of(erring_run(tmp_path, "0.up"))
    capsule = read_capsule(tmp_path / found.evidence["capsule"])
    right = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: right(self, x) * (1 + 2**-23))
    attempt = try_capsule(capsule)
    assert attempt.comparison is Comparison.NEAR_RIGHT
    assert attempt.errors["found"] > 1e3 * attempt.errors["right"]


def test_a_backward_fault_keeps_the_gradients_that_came_in(tmp_path):
    found = finding_of(erring_run(tmp_path, "0.up", backward=True))
    assert str(found.where.link) == "grad"
    assert "capsule" in found.evidence, found.evidence
    capsule = read_capsule(tmp_path / found.evidence["capsule"])
    assert capsule.seeds
    assert any(name.startswith("grad of") for name in capsule.right)
    assert try_capsule(capsule).comparison is Comparison.RIGHT


def test_code_of_the_programs_own_runs_only_where_that_is_allowed(tmp_path):
    found = finding_of(erring_run(tmp_path, "0"))
    capsule = read_capsule(tmp_path / found.evidence["capsule"])
    with pytest.raises(ForeignCodeError, match="Block"):
        try_capsule(capsule)
    assert try_capsule(capsule, allow=True).comparison is Comparison.RIGHT


def described(folder):
    return json.loads((folder / "capsule.json").read_text())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "os:system"),
        ("class", "torch.nn.modules.module:functools.partial"),
        ("class", "torch.nn.modules.linear:torch.hub.load"),
        ("attributes", {"_forward_hooks": {"value": 1}}),
        ("attributes", {"x": {"code": "builtins:eval"}}),
    ],
)
def test_hostile_capsules_run_nothing(tmp_path, key, value):
    found = finding_of(erring_run(tmp_path, "0.up"))
    capsule = read_capsule(tmp_path / found.evidence["capsule"])
    capsule.spec = {**capsule.spec, key: value}
    with pytest.raises((ForeignCodeError, ValueError)):
        try_capsule(capsule)


def test_damaged_capsules_are_one_clear_error(tmp_path):
    found = finding_of(erring_run(tmp_path, "0.up"))
    folder = tmp_path / found.evidence["capsule"]
    data = described(folder)
    for change in (
        {"schema": "other"}, {"arrays": {}}, {"tensors": [{}]}, {"spec": None, "tensors": 3},
    ):  # fmt: skip
        (folder / "capsule.json").write_text(json.dumps({**data, **change}))
        with pytest.raises(PathError, match="capsule"):
            read_capsule(folder)
    (folder / "capsule.json").write_text(json.dumps(data))
    whole = (folder / "tensors.npz").read_bytes()
    (folder / "tensors.npz").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(PathError, match="capsule"):
        read_capsule(folder)
    with pytest.raises(PathError, match="no capsule of step 7"):
        find_capsules(tmp_path, 7)


@dataclass
class Inputs:
    """An input of the program's own kind."""

    tokens: torch.Tensor
    scale: float = 1.0


def test_a_class_that_is_imported_already_is_found_again():
    tensors: list[torch.Tensor] = []
    plain = encode([Inputs(torch.arange(3), 2.5)], tensors)
    (again,) = decode(json.loads(json.dumps(plain)), tensors, find_imported)
    assert isinstance(again, Inputs)
    assert again.tokens.tolist() == [0, 1, 2]
    assert again.scale == 2.5
    with pytest.raises(ValueError, match="is not here"):
        find_imported("no.such.module:Inputs")
