"""A run that keeps checkpoints in a Vault: a step is computed again from the nearest one below."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.api.test_zoom_sides import _record

import everybit
from everybit.api import zoom as zoom_module
from everybit.api.zoom_side import Program
from everybit.api.zoom_take import Take
from everybit.api.zoom_vault import TOLD, VaultsThen

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """
import sys
import torch
import everybit

vault = everybit.Vault(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
first = 0
if vault.newest() is not None:
    first = vault.restore(model=model, optimizer=optimizer).step


def damage(_module, _args, output):
    if step == 5 and len(sys.argv) > 2:
        output.detach().numpy().view("int32")[3, 7] ^= 1 << 20


model[1].register_forward_hook(damage)
for step in range(first, 7):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2:
        vault.save(step=step + 1, model=model, optimizer=optimizer)
"""
pytestmark = pytest.mark.timeout(1800)


def _run(folder: Path, name: str, *arguments: str) -> None:
    asked = [sys.executable, "-m", "everybit", "run", "-q", "--run", f"runs/{name}", "train.py"]
    subprocess.run(
        [*asked, f"vault-{name}", *arguments],
        cwd=folder,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
    )


def test_a_step_is_computed_from_the_checkpoint_below_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    _run(tmp_path, "clean")
    _run(tmp_path, "activation", "activation")
    kept = sorted(path.name for path in (tmp_path / "vault-clean").iterdir())
    verdict = everybit.diff(tmp_path / "runs/clean", tmp_path / "runs/activation", zoom=True)
    assert verdict.first is not None
    assert (verdict.first.kind, verdict.first.where.step) == ("corruption", 5)
    zoom = verdict.findings[0].evidence["zoom"]
    assert (zoom["how"], zoom["elements"]) == ("carried", [3 * 32 + 7])
    told = [each.why for each in verdict.coverage.skipped if each.what.startswith("zoom: run")]
    assert told == ["from its Vault's checkpoint of step 4: what led there was not"] * 2
    # Nothing was saved again.
    assert sorted(path.name for path in (tmp_path / "vault-clean").iterdir()) == kept


def test_a_vault_is_shown_as_the_run_met_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everybit.checkpoint.vault import Vault

    for name in ("_listed", "restore", "save"):
        monkeypatch.setattr(Vault, name, getattr(Vault, name))
    vault = Vault(tmp_path / "vault")
    model = torch.nn.Linear(2, 2)
    for step, time_s in ((10, 50.0), (14, 150.0), (16, 160.0)):
        os.utime(vault.save(step=step, model=model), (time_s, time_s))
    passed_over: list[int] = []

    def show(step: int, *, near: bool) -> int | None:
        with monkeypatch.context() as patched:
            patched.setattr(Vault, "_listed", Vault._listed)
            patched.setattr(Vault, "restore", Vault.restore)
            patched.setattr(Vault, "save", Vault.save)
            VaultsThen(
                began_s=100.0, step=step, near=near, out=tmp_path, passed_over=passed_over.append
            ).install()
            vault.save(step=99, model=model)
            return int(vault.restore(model=model).step)

    # The run began at step 10 and counted from 0: its step 5 comes behind the checkpoint of 14.
    assert show(5, near=True) == 14
    assert passed_over == [4]
    assert (tmp_path / TOLD).is_file()
    assert show(6, near=True) == 16
    assert show(3, near=True) == 10
    assert show(5, near=False) == 10
    assert passed_over == [4, 6]
    assert len(vault._listed()) == 3


def test_a_checkpoint_that_leads_to_other_bits_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def take(_program: Any, _step: int, folder: Path, *, near: bool, **_: Any) -> Take:
        asked.append(near)
        folder.mkdir()
        if near:
            (folder / TOLD).write_text('{"step": 4, "path": ""}')
        word = 9 if near else 1
        return Take(name=folder.name, folder=folder, record=_record(word), settings={})

    monkeypatch.setattr(zoom_module, "take", take)
    work = zoom_module._Zoom(
        step=3, rank=0, sides={}, records={"A": _record(1), "B": _record(2)},
        folder=tmp_path, progress=lambda *_: None,
    )  # fmt: skip
    work.programs["A"] = Program(
        target="", args=(), module=False, folder=tmp_path, outer=True, run_name="", settings={}
    )
    work.begin("A")
    work.take("A")
    assert asked == [True, False, False]
    assert work.takes["A"].vault_step is None
