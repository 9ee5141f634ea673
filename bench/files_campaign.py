"""Every damage on every format at random places: is it found, and is it placed?

    python -m bench.files_campaign --placements 200 --out bench/results/files.json --write

Each placement is verified twice. With a manifest made before: is anything found, is the right file
named and no other, and where bytes of tensors changed, are these tensors named, no other, and do
the byte ranges hold what changed and no more than its leaves? Without a manifest: `findings` where
the format holds evidence, else `inconclusive`. `clean` is right only where the library that wrote
the checkpoint still reads the same values from it (a flipped bit in padding); that is tried.

The truth comes from `places` and `damages`, which know nothing of everybit. The second half, what
must not be found on files that are whole, is `harmless_campaign.py`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import kept
from bench.damages import KINDS, Changed, changed_spans
from bench.kept import commit
from bench.places import Laid, lay
from bench.subjects import SUBJECTS, Subject
from bench.table import write_section

import everybit
from everybit.core import errors as everybit_errors
from everybit.core.tree import LEAF_BYTES
from everybit.core.verdict import Status, Verdict
from everybit.files.seals.manifest import MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.places import Span

    from everybit.core.finding import Finding

_MAX_KEPT: Final = 8
_TRIES: Final = 50
_WHOLE_FILE: Final = ("FIL103", "FIL106", "FIL118")


def judge_sealed(laid: Laid, changed: Changed, verdict: Verdict, *, named: bool) -> list[str]:
    """Return what a verdict against a manifest misses, nothing where it is right."""
    problems = []
    if verdict.status is not Status.FINDINGS:
        return [f"not found: {verdict.status}"]
    told = {finding.where.path for finding in verdict.findings}
    if told != set(changed):
        problems.append(f"files {sorted(map(str, told))} instead of {sorted(changed)}")
    for file, new in changed.items():
        old = laid.files[file]
        own = [finding for finding in verdict.findings if finding.where.path == file]
        spans = None if new is None else changed_spans(old, new)
        if spans is None or any(finding.rule in _WHOLE_FILE for finding in own):
            continue
        cut = len(old) if new is None else len(new)
        problems += _judge_places(laid, file, spans, own, named=named, cut=cut)
    return problems


def _judge_places(
    laid: Laid, file: str, spans: list[Span], own: list[Finding], *, named: bool, cut: int
) -> Iterable[str]:
    hit = {
        name: held
        for name, (where, start, end) in laid.tensors.items()
        if where == file and (held := _within(spans, start, min(end, cut)))
    }
    lost = {n for n, (f, _, end) in laid.tensors.items() if f == file and end > cut}
    tensors = {finding.where.tensor for finding in own if finding.where.tensor is not None}
    if named and not tensors >= set(hit):
        yield f"tensors {sorted(tensors)} instead of {sorted(hit)}"
    if named and not tensors <= set(hit) | lost:
        yield f"names {sorted(tensors - set(hit) - lost)}, which was not hit"
    for name, held in hit.items():
        ranges = [r for f in own if f.where.tensor == name or not named for r in _ranges(f)]
        if not _covers(ranges, held):
            yield f"{name}: {held[:3]} not within {ranges[:3]}"
        elif not _covers([_leaves(span) for span in held], _clip(ranges, laid.tensors[name])):
            yield f"{name}: {ranges[:3]} is wider than the leaves of {held[:3]}"
    if not hit and cut >= len(laid.files[file]) and not _covers(_all_ranges(own), spans):
        yield f"{spans[:3]} not within any range told"
    for finding in own:
        if finding.rule == "FIL104" and lost & set(finding.evidence.get("readable", ())):
            yield "a tensor beyond the cut is called readable"


def _all_ranges(findings: list[Finding]) -> list[Span]:
    return [span for finding in findings for span in _ranges(finding)]


def _within(spans: list[Span], start: int, end: int) -> list[Span]:
    return [(max(a, start), min(b, end)) for a, b in spans if max(a, start) < min(b, end)]


def _clip(ranges: list[Span], tensor: tuple[str, int, int]) -> list[Span]:
    return _within(ranges, tensor[1], tensor[2])


def _leaves(span: Span) -> Span:
    return span[0] // LEAF_BYTES * LEAF_BYTES, -(-span[1] // LEAF_BYTES) * LEAF_BYTES


def _ranges(finding: Finding) -> list[Span]:
    where = finding.where
    return [*(where.byte_ranges or ()), *([where.byte_range] if where.byte_range else [])]


def _covers(ranges: list[Span], spans: list[Span]) -> bool:
    joined: list[list[int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return all(any(a <= start and end <= b for a, b in joined) for start, end in spans)


def reads_the_same(subject: Subject, folder: Path, wanted: dict[str, bytes]) -> bool:
    """Whether the library that wrote a checkpoint still reads the same values from it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return subject.load(folder) == wanted
    except KeyboardInterrupt:
        raise
    except BaseException:  # DCP's own errors are no `Exception`
        return False


class Cell:
    """What became of all placements of one damage on one format."""

    def __init__(self) -> None:
        self.placements = self.right = 0
        self.statuses: Counter[str] = Counter()
        self.rules_sealed: Counter[str] = Counter()
        self.rules_bare: Counter[str] = Counter()
        self.several = 0
        self.problems: list[dict[str, Any]] = []
        self.passed: list[dict[str, Any]] = []

    def to_json(self) -> dict[str, Any]:
        return {
            "placements": self.placements,
            "sealed_right": self.right,
            "sealed_more_than_one_finding": self.several,
            "sealed_rules": dict(sorted(self.rules_sealed.items())),
            "sealed_problems": self.problems[:_MAX_KEPT],
            "bare": dict(sorted(self.statuses.items())),
            "bare_rules": dict(sorted(self.rules_bare.items())),
            "bare_passed": self.passed[:_MAX_KEPT],
            "bare_num_passed": len(self.passed),
        }


def run_cell(
    subject: Subject, laid: Laid, other: Laid, kind: str, folder: Path, placements: int, seed: int
) -> Cell | None:
    """Try one damage on one format; None where the format has no place for it."""
    cell = Cell()
    wanted = subject.load(folder)
    manifest = folder / MANIFEST_NAME
    sealed = manifest.read_bytes()
    for number in range(placements):
        place = zlib.crc32(f"{subject.name}/{kind}/{number}".encode())
        rng = random.Random(seed << 32 | place)
        changed = next(
            (
                found
                for _ in range(_TRIES)
                if (found := KINDS[kind](laid, other, rng))
                and any(new != laid.files[file] for file, new in found.items())
            ),
            None,
        )
        if changed is None:
            return None
        for file, new in changed.items():
            if new is None:
                (folder / file).unlink()
            else:
                (folder / file).write_bytes(new)
        _try_one(subject, laid, changed, folder, cell, number, wanted)
        manifest.write_bytes(sealed)
        for file in changed:
            (folder / file).write_bytes(laid.files[file])
    return cell


def _try_one(
    subject: Subject,
    laid: Laid,
    changed: Changed,
    folder: Path,
    cell: Cell,
    number: int,
    wanted: dict[str, bytes],
) -> None:
    cell.placements += 1
    verdict = everybit.verify(folder)
    cell.rules_sealed.update({finding.rule for finding in verdict.findings})
    cell.several += len(verdict.findings) > len(changed)
    problems = judge_sealed(laid, changed, verdict, named=subject.named)
    cell.right += not problems
    if problems:
        cell.problems.append({"placement": number, "problems": problems})
    (folder / MANIFEST_NAME).unlink()
    bare = everybit.verify(folder)
    status = str(bare.status)
    if bare.status is Status.CLEAN:
        same = reads_the_same(subject, folder, wanted)
        status = "clean, and reads the same" if same else "clean, and reads otherwise"
        if not same:
            spans = {
                file: new if new is None else (changed_spans(laid.files[file], new) or [])[:2]
                for file, new in changed.items()
            }
            cell.passed.append({"placement": number, "changed": spans})
    cell.statuses[status] += 1
    cell.rules_bare.update({finding.rule for finding in bare.findings})


def campaign(
    placements: int,
    seed: int,
    *,
    subjects: Iterable[str] = (),
    kinds: Iterable[str] = (),
    place: Path | None = None,
) -> dict[str, Any]:
    """Try every damage on every format and return what came of it."""
    cells: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=place) as top:
        for subject in SUBJECTS:
            if subjects and subject.name not in subjects:
                continue
            folder = Path(top) / subject.name.replace(" ", "-")
            laid = lay(subject, folder, seed + 1)
            other = lay(subject, Path(f"{folder}-before"), seed + 2)
            try:
                everybit.seal(folder)
            except everybit_errors.EverybitError as error:
                refused[subject.name] = error.line()
                print(f"{subject.name}: cannot be sealed: {error}", file=sys.stderr)
                continue
            for kind in kinds or KINDS:
                at = time.perf_counter()
                cell = run_cell(subject, laid, other, kind, folder, placements, seed)
                if cell is None:
                    continue
                cells.setdefault(subject.name, {})[kind] = cell.to_json()
                took = time.perf_counter() - at
                print(f"{subject.name}: {kind}: {_line(cell)}, {took:.1f} s", file=sys.stderr)
    return {
        "placements": placements,
        "seed": seed,
        "seconds": round(time.perf_counter() - began, 1),
        "refused": refused,
        "cells": cells,
    }


def _line(cell: Cell) -> str:
    return f"{cell.right} of {cell.placements} right; bare {dict(cell.statuses)}"


def failures(result: dict[str, Any]) -> list[str]:
    """What a campaign shows that must not be."""
    return [f"{subject}: not sealed: {why}" for subject, why in result["refused"].items()] + [
        f"{subject}: {kind}: {problem}"
        for subject, cells in result["cells"].items()
        for kind, cell in cells.items()
        for problem in (*cell["sealed_problems"], *cell["bare_passed"])
    ]


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Join campaigns over different formats, of one seed and number of placements."""
    joined = dict(runs[0])
    if any(
        (run["placements"], run["seed"]) != (runs[0]["placements"], runs[0]["seed"]) for run in runs
    ):
        raise ValueError("the campaigns differ in seed or placements")
    joined["commit"] = " and ".join(sorted({run["commit"] for run in runs}))
    joined["seconds"] = sum(run["seconds"] for run in runs)
    for key in ("refused", "cells"):
        joined[key] = {name: value for run in runs for name, value in run[key].items()}
    return joined


def table(result: dict[str, Any]) -> str:
    """The campaign as a table."""
    rows = ["| format | damage | placed right with a manifest | without one |", "|---|---|---|---|"]
    for subject, cells in result["cells"].items():
        for kind, cell in cells.items():
            bare = ", ".join(f"{count} {status}" for status, count in cell["bare"].items())
            rows.append(
                f"| {subject} | {kind} | {cell['sealed_right']} of {cell['placements']} | {bare} |"
            )
    return "\n".join(rows)


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--placements", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subject", action="append", default=[])
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--place", type=Path, help="where to keep the files while it runs")
    kept.add_options(parser)
    options = parser.parse_args()
    if options.merge:
        result = merge(kept.read_parts(options.merge))
    else:
        result = {
            "commit": commit(),
            **campaign(
                options.placements,
                options.seed,
                subjects=options.subject,
                kinds=options.kind,
                place=options.place,
            ),
        }
    kept.write_result(result, options.out)
    if options.write:
        text = (
            "## Damage on every format\n\n`python -m bench.files_campaign`: "
            f"{result['placements']} random places each, seed {result['seed']}, commit "
            f"{result['commit']}. Right means: found, the right file and no other, every tensor "
            "that was hit and no other, and its byte range. Without a manifest `clean` is said "
            "only where the library that wrote the file reads the same values from it.\n\n"
        )
        write_section("files-campaign", text + table(result))
    wrong = failures(result)
    for line in wrong[:40]:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
