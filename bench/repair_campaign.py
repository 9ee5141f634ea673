"""Repair at random places: what is put back is right bit for bit, or nothing is put back.

    python -m bench.repair_campaign --out bench/results/repair.json --write

1. Single flipped bits in members of `torch.save` files and DCP entries, no manifest, no copy:
   first as repair does by itself, where a second witness agrees, then with `--accept-weak`.
2. Wider damage of the same members, likewise: none may be "repaired" into something else. A second
   set is made by an adversary who knows CRC-32: fourteen bits whose checksum differs as that of one
   flipped bit elsewhere. Only a second witness tells it apart, and `--accept-weak` goes without.
3. Parity: losses within the guarantee that `seal` printed, and losses beyond it.
4. One flipped bit in a file of 1 GiB, by the clock.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from bench.kept import commit
from bench.parity_sets import ParitySet
from bench.places import lay
from bench.subjects import SUBJECTS
from bench.table import write_section

import everybit
from everybit.core.errors import EverybitError

if TYPE_CHECKING:
    from bench.places import Laid

_MAX_KEPT: Final = 10
_SUBJECTS: Final = ("torch zip", "DCP")
#: x^32 + x^26 + ... + 1 over GF(2): flipping these bits together leaves a CRC-32 as it was.
_TAPS: Final = (0, 1, 2, 4, 5, 7, 8, 10, 11, 12, 16, 22, 23, 26, 32)


def _members(laid: Laid) -> list[tuple[str, int, int]]:
    """Where bytes lie that a checksum of the archive covers: tensors and pickle records."""
    return [
        (file, start, end)
        for (file, kind), spans in laid.regions.items()
        if kind in ("data", "pickle") and file != ".metadata"
        for start, end in spans
    ]


def _flip_one(laid: Laid, rng: random.Random) -> tuple[str, bytes]:
    places = _members(laid)
    file, start, end = rng.choices(places, [end - start for _, start, end in places])[0]
    data = bytearray(laid.files[file])
    data[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
    return file, bytes(data)


def _flip_many(laid: Laid, rng: random.Random) -> tuple[str, bytes]:
    """Two to many bits of one member: scattered, in one word, a run, a copied or zeroed piece."""
    places = [place for place in _members(laid) if place[2] - place[1] >= 16]
    file, start, end = rng.choices(places, [end - start for _, start, end in places])[0]
    data = bytearray(laid.files[file])
    kind = rng.randrange(5)
    length = min(end - start, rng.choice((2, 4, 8, 64, 4096)))
    at = rng.randrange(start, end - length + 1)
    if kind == 0:
        for _ in range(rng.choice((2, 2, 3, 4, 7, 64))):
            data[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        word = at - at % 4
        for bit in rng.sample(range(32), rng.randint(2, 8)):
            data[max(start, word + bit // 8)] ^= 1 << bit % 8
    elif kind == 2:
        data[at : at + length] = rng.randbytes(length)
    elif kind == 3:
        data[at : at + length] = bytes(length)
    else:
        other = rng.randrange(start, end - length + 1)
        data[at : at + length] = data[other : other + length]
    return file, bytes(data)


def _imitate(laid: Laid, rng: random.Random) -> tuple[str, bytes]:
    """Fourteen flipped bits that CRC-32 takes for one: the polynomial's, but for one of them."""
    places = [place for place in _members(laid) if place[2] - place[1] >= 16]
    file, start, end = rng.choices(places, [end - start for _, start, end in places])[0]
    data = bytearray(laid.files[file])
    # Reflected CRC-32 takes the bits of a byte from the least significant on.
    first = rng.randrange(8 * (end - start) - 33)
    left_out = rng.choice(_TAPS)
    for tap in _TAPS:
        if tap != left_out:
            place = first + 32 - tap
            data[start + place // 8] ^= 1 << place % 8
    return file, bytes(data)


def try_members(make: Any, count: int, seed: int, place: Path | None) -> dict[str, Any]:
    """Damage members one at a time, repair, and hold the file against what it was."""
    outcomes: Counter[str] = Counter()
    wrong = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=place) as top:
        subjects = [subject for subject in SUBJECTS if subject.name in _SUBJECTS]
        made = []
        for subject in subjects:
            folder = Path(top) / subject.name.replace(" ", "-")
            made.append((folder, lay(subject, folder, seed + 1)))
        for number in range(count):
            rng = random.Random(f"{seed}:{make.__name__}:{number}")
            folder, laid = made[number % len(made)]
            file, damaged = make(laid, rng)
            if damaged == laid.files[file]:
                outcomes["no damage drawn"] += 1
                continue
            (folder / file).write_bytes(damaged)
            for accept in (False, True):
                outcome = _repair(folder, file, laid.files[file], damaged, accept_weak=accept)
                if outcome == "changed into something else":
                    wrong.append(number)
                if outcome != "left as it was":
                    break
            how = " with --accept-weak" if accept and outcome != "left as it was" else ""
            outcomes[outcome + how] += 1
            _put_back(folder, laid)
    return {
        "tried": count,
        "outcomes": dict(sorted(outcomes.items())),
        "wrong": wrong[:_MAX_KEPT],
        "seconds": round(time.perf_counter() - began, 1),
    }


def _repair(folder: Path, file: str, clean: bytes, damaged: bytes, *, accept_weak: bool) -> str:
    path = folder / file
    try:
        everybit.repair(path, write=True, accept_weak=accept_weak)
    except EverybitError as error:
        return f"raised {type(error).__name__}"
    found = path.read_bytes()
    if found == clean:
        return "restored"
    return "left as it was" if found == damaged else "changed into something else"


def _put_back(folder: Path, laid: Laid) -> None:
    for path in folder.iterdir():
        if path.name not in laid.files:
            path.unlink()
    for file, data in laid.files.items():
        (folder / file).write_bytes(data)


# -- parity ----------------------------------------------------------------------------------------


def try_parity(count: int, seed: int, place: Path | None, *, beyond: bool) -> dict[str, Any]:
    """Lose parts of sealed folders with parity, repair, and hold all against the originals."""
    outcomes: Counter[str] = Counter()
    wrong = []
    with tempfile.TemporaryDirectory(dir=place) as top:
        sets = [
            ParitySet(Path(top) / f"set-{number}", redundancy, seed + number)
            for number, redundancy in enumerate((0.05, 0.12, 0.25))
        ]
        for number in range(count):
            rng = random.Random(f"{seed}:parity:{beyond}:{number}")
            one = sets[number % len(sets)]
            lost = one.lose(rng, beyond=beyond)
            for name, data in lost.items():
                if data is None:
                    (one.folder / name).unlink()
                else:
                    (one.folder / name).write_bytes(data)
            outcome = _after_repair(one, lost)
            outcomes[outcome] += 1
            right = ("restored", "said so, the rest restored") if beyond else ("restored",)
            if outcome not in right:
                wrong.append({"placement": number, "files": sorted(lost), "outcome": outcome})
            one.put_back()
        geometry = [{"code": s.code, "stripes": s.stripes, "borne": s.borne} for s in sets]
    return {
        "tried": count,
        "sets": geometry,
        "outcomes": dict(sorted(outcomes.items())),
        "wrong": wrong[:_MAX_KEPT],
        "num_wrong": len(wrong),
    }


def _right_or_lost(data: bytes, right: bytes, damaged: bytes) -> bool:
    """Whether every byte is right, or as the damage left it, or zero where it left none."""
    there = np.frombuffer(data, "u1")
    size = len(there)
    wanted = np.frombuffer(right[:size].ljust(size, b"\0"), "u1")
    left = np.frombuffer(damaged[:size].ljust(size, b"\0"), "u1")
    return bool(np.all((there == wanted) | (there == left)))


def _after_repair(one: ParitySet, lost: dict[str, bytes | None]) -> str:
    try:
        verdict = everybit.repair(one.folder, write=True)
    except EverybitError as error:
        return f"raised {type(error).__name__}"
    found = {
        name: (one.folder / name).read_bytes() if (one.folder / name).exists() else None
        for name in one.files
    }
    if found == one.files:
        return "restored"
    if any(
        not _right_or_lost(data, one.files[name], lost.get(name, one.files[name]) or b"")
        for name, data in found.items()
        if data is not None
    ):
        return "changed into something else"
    if not verdict.findings or verdict.ok:
        return "not restored, and not said"
    return "said so, the rest restored"


# -- a large file ----------------------------------------------------------------------------------


def time_large(mib: int, place: Path | None, rounds: int = 3) -> dict[str, Any]:
    """Locate one flipped bit in a large `torch.save` file, and put it back."""
    with tempfile.TemporaryDirectory(dir=place) as top:
        path = Path(top) / "model.pt"
        torch.save({f"layer.{n}": torch.randn(1024, 1024) for n in range(mib // 4)}, path)
        size = path.stat().st_size
        located, written = [], []
        for number in range(rounds):
            at = random.Random(number).randrange(size // 10, size)
            with path.open("r+b") as file:
                file.seek(at)
                before = file.read(1)
                file.seek(at)
                file.write(bytes([before[0] ^ 16]))
            began = time.perf_counter()
            everybit.repair(path, accept_weak=True)
            located.append(time.perf_counter() - began)
            began = time.perf_counter()
            everybit.repair(path, write=True, accept_weak=True)
            written.append(time.perf_counter() - began)
            with path.open("rb") as file:
                file.seek(at)
                assert file.read(1) == before
            for kept in path.parent.iterdir():
                if kept != path:
                    kept.unlink()
        return {
            "mib": mib,
            "locate_seconds": [round(value, 3) for value in located],
            "locate_and_write_seconds": [round(value, 3) for value in written],
        }


def table(result: dict[str, Any]) -> str:
    """The campaign as a table."""
    rows = ["| | tried | outcome |", "|---|---|---|"]
    told = {
        "single": "one flipped bit in a member, no manifest",
        "multi": "wider damage of the same members",
        "imitations": "14 bits chosen so that CRC-32 takes them for one",
        "parity_within": "losses within parity's guarantee",
        "parity_beyond": "losses beyond it",
    }
    for key, what in told.items():
        part = result[key]
        outcome = ", ".join(f"{count} {name}" for name, count in part["outcomes"].items())
        rows.append(f"| {what} | {part['tried']} | {outcome} |")
    if "large" in result:
        large = result["large"]
        located, written = min(large["locate_seconds"]), min(large["locate_and_write_seconds"])
        told_times = f"located in {located:.2f} s; located, written and proven in {written:.2f} s"
        rounds = len(large["locate_seconds"])
        rows.append(f"| one flipped bit in {large['mib']} MiB | {rounds} | {told_times} |")
    return "\n".join(rows)


def campaign(
    flips: int, losses: int, seed: int, *, place: Path | None = None, mib: int = 0
) -> dict[str, Any]:
    """Run all parts."""
    result: dict[str, Any] = {"commit": commit(), "seed": seed}
    parts = (("single", _flip_one), ("multi", _flip_many), ("imitations", _imitate))
    for name, make in parts:
        count = flips if name != "imitations" else flips // 10
        result[name] = try_members(make, count, seed, place)
        print(name, result[name], file=sys.stderr)
    for name, beyond in (("parity_within", False), ("parity_beyond", True)):
        result[name] = try_parity(losses, seed, place, beyond=beyond)
        print(name, result[name], file=sys.stderr)
    if mib:
        result["large"] = time_large(mib, place)
    return result


def failures(result: dict[str, Any]) -> list[str]:
    """What a campaign shows that must not be."""
    single = result["single"]
    lines = []
    restored = sum(n for what, n in single["outcomes"].items() if what.startswith("restored"))
    if restored != single["tried"]:
        lines.append(f"single flips: {single['outcomes']}")
    lines += [
        f"{name}: repaired into something else: {result[name]['wrong']}"
        for name in ("single", "multi")
        if result[name]["wrong"]
    ]
    for name in ("parity_within", "parity_beyond"):
        lines += [f"{name}: {item}" for item in result[name]["wrong"]]
    return lines


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--losses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mib", type=int, default=1024, help="size of the large file; 0 for none")
    parser.add_argument("--place", type=Path, help="where to keep the files while it runs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    options = parser.parse_args()
    if options.place is not None and shutil.disk_usage(options.place).free < options.mib << 22:
        parser.error(f"{options.place} has no room for four times {options.mib} MiB")
    result = campaign(
        options.flips, options.losses, options.seed, place=options.place, mib=options.mib
    )
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.write:
        text = (
            "## Repair\n\n`python -m bench.repair_campaign`: seed "
            f"{result['seed']}, commit {result['commit']}.\n\n"
        )
        write_section("repair", text + table(result))
    wrong = failures(result)
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
