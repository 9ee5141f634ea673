"""What it costs to make a result wrong, and where it works: everybit, PyTorchFI and MRFI.

    python bench/inject.py --peers PEERS [--write]

PEERS is a folder with a virtual environment for each peer, under its name: pytorchfi, mrfi. One
that is not there is left out. Writes `bench/results/inject.json`, and with `--write` the section
of the docs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from table import write_section

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "inject.json"
TOOLS = ("everybit", "pytorchfi", "mrfi")
INTRODUCTION = (
    "`python bench/inject.py --peers PEERS --write`: one element of what one module gives is wrong"
    " at every forward of a CNN of eight convolutions (batch 8, one thread). Cost: such a forward"
    " over a plain one, in turns, median. Each peer in a virtual environment of its own, through"
    " its documented interface; PyTorchFI makes a copy of the model for each fault."
)
ASKED = {
    "bf16": "a bf16 model",
    "integers": "integer inputs",
    "lstm": "an LSTM (a tuple)",
    "training": "a training step",
    "exception": "after an error of the model",
}


def ask(tool: str, peers: Path | None) -> dict[str, Any] | None:
    """Run the child in the tool's environment; None where there is none."""
    python = sys.executable
    if tool != "everybit":
        if peers is None or not (peers / tool / "bin" / "python").exists():
            return None
        python = str(peers / tool / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "told.json"
        subprocess.run([python, str(HERE / "inject_peers.py"), tool, str(out)], check=True)
        told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return told


def markdown(results: list[dict[str, Any]]) -> str:
    """The section of the page."""
    lines = [
        "## Wrong results on purpose",
        "",
        INTRODUCTION,
        "",
        "| | " + " | ".join(one["tool"] for one in results) + " |",
        "|---|" + "---|" * len(results),
        "| cost | " + " | ".join(f"{one['cost']['ratio']:.2f}" for one in results) + " |",
    ]
    lines += [
        f"| {title} | " + " | ".join(_short(one[key]) or "works" for one in results) + " |"
        for key, title in ASKED.items()
    ]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _short(why: str) -> str:
    return why if len(why) < 70 else why[:66].rsplit(" ", 1)[0] + " ..."


def main() -> None:
    """Ask each tool, keep what it told, write the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    given = parser.parse_args()
    results = [told for tool in TOOLS if (told := ask(tool, given.peers)) is not None]
    RESULT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(markdown(results))
    if given.write:
        write_section("inject", markdown(results))


if __name__ == "__main__":
    main()
