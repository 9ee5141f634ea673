"""The scripts in bench/data_faults: each fault draws its rule, its harmless twin draws none."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import everybit

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).parents[3] / "bench" / "data_faults"
SCRIPTS = sorted(p.stem for p in FOLDER.glob("*.py") if "RULE = " in p.read_text())


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    monkeypatch.setattr(logging.getLogger("everybit"), "disabled", True)

    def load_script(name: str) -> ModuleType:
        if name == "truncated_image":
            pytest.importorskip("PIL")
        return importlib.import_module(name)

    yield load_script
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(FOLDER) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def judge(script: ModuleType, tmp_path: Path, *, harmless: bool) -> everybit.Verdict:
    # Some faults end the run with an error: of that the Guard tells, too.
    ends = contextlib.suppress(IndexError, RuntimeError)
    with ends, everybit.Guard(run=tmp_path / "run", replay_every=0) as guard:
        script.main(harmless=harmless)
    assert not guard._fence.fault
    return guard.verdict


@pytest.mark.parametrize("name", SCRIPTS)
def test_fault_is_told(name, load, tmp_path):
    script = load(name)
    found = {finding.rule for finding in judge(script, tmp_path, harmless=False).findings}
    assert script.RULE in found
    assert found <= {script.RULE, *getattr(script, "ALSO", ())}


@pytest.mark.parametrize("name", SCRIPTS)
def test_harmless_twin_is_clean(name, load, tmp_path):
    verdict = judge(load(name), tmp_path, harmless=True)
    assert verdict.findings == ()
    assert verdict.status == "clean"


def test_there_are_enough():
    assert len(SCRIPTS) >= 24


def test_the_page_shows_every_script():
    page = (FOLDER.parents[1] / "docs" / "data-faults.md").read_text(encoding="utf-8")
    for name in SCRIPTS:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.endswith("| clean |")
