"""`env diff` of two runs: the files that their programs read before their first step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import everybit
from everybit.api.env import env_diff

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import json, torch
json.load(open("cfg.json"))
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 4)).sum().backward()
optimizer.step()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for rate in (0.1, 0.1, 0.2):
            (folder / "cfg.json").write_text(json.dumps({"rate": rate}))
            found.append(folder / everybit.run("train.py").folder)
    return found


def test_a_file_that_was_edited_between_two_runs_is_told(runs: list[Path]) -> None:
    verdict = env_diff(runs[0], runs[2])
    (entry,) = [each for each in verdict.findings if (each.where.entry or "").startswith("files.")]
    assert entry.where.entry == "files.cfg.json"


def test_equal_files_are_no_difference(runs: list[Path]) -> None:
    verdict = env_diff(runs[0], runs[1])
    assert not [each for each in verdict.findings if (each.where.entry or "").startswith("files.")]


def test_a_record_alone_has_none_to_compare(runs: list[Path], tmp_path: Path) -> None:
    everybit.env(tmp_path / "env.json")
    verdict = env_diff(runs[0], tmp_path / "env.json")
    assert not [each for each in verdict.findings if (each.where.entry or "").startswith("files.")]
