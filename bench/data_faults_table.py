"""Run every script of bench/data_faults and its harmless twin; write the table of the page.

python bench/data_faults_table.py
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import tempfile
from pathlib import Path

import torch

import everybit
from table import write_section

FOLDER = Path(__file__).parent / "data_faults"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "data-faults.md"


def scripts() -> list[str]:
    return sorted(p.stem for p in FOLDER.glob("*.py") if "RULE = " in p.read_text())


def judged(name: str, *, harmless: bool) -> str:
    script = importlib.import_module(name)
    ends = contextlib.suppress(IndexError, RuntimeError)
    with tempfile.TemporaryDirectory() as folder:
        with ends, everybit.Guard(run=Path(folder) / "run", replay_every=0) as guard:
            script.main(harmless=harmless)
        rules = sorted({finding.rule for finding in guard.verdict.findings})
    return ", ".join(rules) or str(guard.verdict.status)


def told(name: str) -> tuple[str, str]:
    """Return what the script says of its fault, and of its harmless twin."""
    text = " ".join((importlib.import_module(name).__doc__ or "").split())
    fault, _, harmless = text.partition(" Harmless: ")
    return fault, harmless


def main() -> None:
    sys.path.insert(0, str(FOLDER))
    torch.set_num_threads(1)
    logging.getLogger("everybit").disabled = True
    rows = [
        "| script | the fault | judged | its harmless twin | judged |",
        "|---|---|---|---|---|",
    ]
    for name in scripts():
        fault, harmless = told(name)
        found = judged(name, harmless=False)
        clean = judged(name, harmless=True)
        rows.append(
            f"| `{name}` | {fault} | {found} | {harmless[:1].upper()}{harmless[1:]} | {clean} |"
        )
    write_section("data faults", "\n".join(rows), page=PAGE)


if __name__ == "__main__":
    main()
