"""Commands that a verb tells to type next work as printed, in folders with spaces too."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def _tell(folder: Path, *args: str) -> str:
    command = [sys.executable, "-m", "everybit", *args]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return told.stderr


def test_the_next_program_of_a_new_project_is_quoted(tmp_path: Path) -> None:
    (folder,) = re.findall("next: (.*)", _tell(tmp_path, "init", "repro", "looking at it"))
    assert shlex.split(folder) == ["python", "looking at it/scripts/train_debug.py"]


def test_the_run_folder_to_report_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "my script.py").write_text("print(1)\n")
    told = _tell(tmp_path, "run", "--run", "läufe 1/a", "my script.py")
    (command,) = re.findall("`(everybit report .*?)`", told)
    assert shlex.split(command) == ["everybit", "report", "läufe 1/a"]
