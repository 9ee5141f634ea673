"""Folders of files, and ways to lose parts of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEAF = 65536
SIZES = {
    "a.dat": 5 * LEAF + 17,
    "b/größe.dat": 9 * LEAF,
    "b/c.dat": 1,
    "d.dat": 0,
    "e.dat": LEAF,
    "f 空.dat": LEAF + 1,
    "g.dat": 23 * LEAF - 1,
    "h.txt": 900,
}


def fill(folder: Path, sizes: dict[str, int] = SIZES, seed: int = 0) -> dict[str, bytes]:
    """Write files of random bytes and return what they hold."""
    rng = random.Random(seed)
    held = {}
    for name, size in sizes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        held[name] = rng.randbytes(size)
        path.write_bytes(held[name])
    return held


def content(folder: Path, names=SIZES) -> dict[str, bytes | None]:
    """Return what the files hold now; None for one that is gone."""
    return {
        name: (folder / name).read_bytes() if (folder / name).exists() else None for name in names
    }


def change(path: Path, start: int, new: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[start : start + len(new)] = new
    path.write_bytes(data)


def lose_run(folder: Path, held: dict[str, bytes], rng: random.Random, most: int) -> str:
    """Overwrite or cut up to `most` contiguous bytes of one file; return what was done."""
    name = rng.choice([name for name, data in held.items() if data])
    data = held[name]
    length = rng.randint(1, min(most, len(data)))
    kind = rng.choice(["noise", "zeros", "cut"])
    path = folder / name
    if kind == "cut":
        path.write_bytes(data[: len(data) - length])
    else:
        start = rng.randint(0, len(data) - length)
        change(path, start, rng.randbytes(length) if kind == "noise" else bytes(length))
    return f"{kind} of {length} bytes in {name}"
