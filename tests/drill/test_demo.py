"""The demo, on a smaller model: every act holds, and a fault that is missed is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner

import everybit.drill.demo as drill_demo
from everybit.api.demo import demo
from everybit.cli.demo import command
from everybit.core.errors import PathError
from everybit.drill.gpt import GPTConfig
from everybit.drill.scenes import demo_scenes
from everybit.drill.text import Batches, standard_library_bytes
from everybit.drill.training import Recipe

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Recipe(model=GPTConfig(width=32, heads=2, context=16), batch=2, steps=30)


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(drill_demo, "RECIPE", SMALL)


def test_every_act_holds(tmp_path: Path) -> None:
    lines: list[str] = []
    result = demo(tmp_path / "demo", say=lines.append)
    text = "\n".join(lines)
    assert result.failures == [], text
    assert "FAILED" not in text
    assert text.count("caught before its first use, named right, healed") == len(demo_scenes())
    assert "kind corruption, step 6" in text
    assert result.page.is_file()
    assert str(result.page) in lines[-1]
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "broken", "checkpoint", "clean", "healed",
    }  # fmt: skip


def test_a_missed_fault_fails_the_demo(tmp_path: Path, monkeypatch) -> None:
    # The Guard is blind: nothing may be claimed.
    monkeypatch.setattr("everybit.guard.marks.Marks.compare", lambda _, at: [False] * len(at))
    lines: list[str] = []
    result = demo(tmp_path / "demo", say=lines.append)
    assert len(result.failures) > len(demo_scenes())
    assert any("was caught" in failure for failure in result.failures)


def test_the_command_prints_the_page_last_and_exits_with_0(tmp_path: Path) -> None:
    # As `main` asks it: click keeps the help option of the first call.
    names = {"help_option_names": ["-h", "--help"]}
    args = ["--out", str(tmp_path / "d")]
    done = CliRunner().invoke(command, args, standalone_mode=False, **names)
    assert done.return_value == 0
    assert done.stdout.rstrip().endswith("healed/report.html")


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(PathError, match="--out"):
        demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_text_and_batches_repeat() -> None:
    text = standard_library_bytes(10_000)
    assert text.dtype == torch.uint8
    assert len(text) == 10_000
    one, other = (Batches(text, batch=3, context=8, seed=4) for _ in range(2))
    for _ in range(3):
        a, b = one.next(), other.next()
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[0][:, 1:], a[1][:, :-1])
