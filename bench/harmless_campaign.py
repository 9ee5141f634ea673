"""Whole checkpoints: nothing is found in them, sealed or not, moved or saved again.

    python -m bench.harmless_campaign --large --out bench/results/harmless.json --write

Each kind is written by its own library, verified without a manifest (`clean`, or `inconclusive`
where the format has no checksum), sealed and verified (`clean`), and, where torch or safetensors
wrote it, loaded and saved again: then at most a note may be said.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from bench.harmless import KINDS, LARGE
from bench.kept import commit
from bench.table import write_section

import everybit
from everybit.core.finding import Severity
from everybit.core.verdict import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.verdict import Verdict


def _told(verdict: Verdict, *, notes: bool = False) -> list[str]:
    return [
        f"{finding.rule} {finding.message[:160]}"
        for finding in verdict.findings
        if not (notes and finding.severity is Severity.NOTE)
    ]


def save_again(folder: Path) -> int:
    """Load and save every file that torch or safetensors wrote; returns how many."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    count = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".pt", ".pth", ".ckpt") and path.is_file():
            try:
                value = torch.load(path, weights_only=True)
            except Exception:
                continue
            torch.save(value, path)
            count += 1
        elif path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                state = {name: file.get_tensor(name) for name in reversed(list(file.keys()))}
            if state:
                save_file(state, path, metadata={"saved": "again"})
                count += 1
    return count


def try_kind(make: Callable[[Path], None], folder: Path, *, again: bool = True) -> dict[str, Any]:
    """Write one kind and verify it in every state in which it is whole."""
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    result: dict[str, Any] = {
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "findings": [],
    }
    bare = everybit.verify(folder)
    result["bare"] = str(bare.status)
    result["findings"] += [f"bare: {line}" for line in _told(bare)]
    unread = [item for item in bare.coverage.skipped if "not read" in item.why]
    result["not_read"] = [f"{item.what}: {item.why}"[:160] for item in unread][:4]
    everybit.seal(folder)
    sealed = everybit.verify(folder)
    result["sealed"] = str(sealed.status)
    result["findings"] += [f"sealed: {line}" for line in _told(sealed)]
    if sealed.status is not Status.CLEAN and not sealed.findings:
        result["findings"] += [f"sealed: skipped {item.what}" for item in sealed.coverage.skipped]
    if again:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result["saved_again"] = save_again(folder)
        other = everybit.verify(folder)
        result["again"] = str(other.status)
        result["findings"] += [f"saved again: {line}" for line in _told(other, notes=True)]
    return result


def campaign(place: Path | None = None, *, large: bool = False, only: Any = ()) -> dict[str, Any]:
    """Try all kinds and return what came of each."""
    kinds = {}
    measured = commit()
    with tempfile.TemporaryDirectory(dir=place) as top:
        for name, make in {**KINDS, **(LARGE if large else {})}.items():
            if only and name not in only:
                continue
            began = time.perf_counter()
            folder = Path(top) / "kind"
            kinds[name] = try_kind(make, folder, again=name not in LARGE)
            kinds[name]["seconds"] = round(time.perf_counter() - began, 1)
            shutil.rmtree(folder)
            print(name, kinds[name], file=sys.stderr)
    return {"commit": measured, "kinds": kinds}


def failures(result: dict[str, Any]) -> list[str]:
    """What a campaign shows that must not be."""
    return [
        f"{kind}: {line}" for kind, part in result["kinds"].items() for line in part["findings"]
    ]


def table(result: dict[str, Any]) -> str:
    """The campaign as a table."""
    rows = ["| whole checkpoints | files | without a manifest | sealed | findings |"]
    rows.append("|---|---|---|---|---|")
    for name, part in result["kinds"].items():
        rows.append(
            f"| {name} | {part['files']} | {part['bare']} | {part['sealed']} | "
            f"{len(part['findings'])} |"
        )
    return "\n".join(rows)


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--place", type=Path, help="where to keep the files while it runs")
    parser.add_argument("--large", action="store_true", help="files over 4 GiB too")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    options = parser.parse_args()
    result = campaign(options.place, large=options.large, only=options.only)
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.write:
        text = (
            f"## Whole checkpoints\n\n`python -m bench.harmless_campaign`, commit "
            f"{result['commit']}: verified as they are, sealed, and saved again.\n\n"
        )
        write_section("harmless", text + table(result))
    wrong = failures(result)
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
