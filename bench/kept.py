"""Result files of campaigns: options of those that run in parts, reading, writing, the commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--merge`, `--out` and `--write`."""
    parser.add_argument("--merge", type=Path, nargs="+", help="join result files, run nothing")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")


def read_parts(paths: list[Path]) -> list[Any]:
    """Return what result files hold."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def write_result(result: Any, path: Path | None) -> None:
    """Write a result where it was asked for."""
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def commit() -> str:
    """The commit that is measured."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
