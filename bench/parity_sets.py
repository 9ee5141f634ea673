"""Sealed folders with parity, and losses within and beyond what parity restores."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import torch

import everybit
from everybit.core.tree import LEAF_BYTES

if TYPE_CHECKING:
    import random
    from pathlib import Path


class ParitySet:
    """A sealed folder of three shards with parity, and losses in it.

    The geometry is taken from the manifest: leaf i of the row of all leaves belongs to stripe
    i mod S, and each stripe bears m losses.
    """

    def __init__(self, folder: Path, redundancy: float, seed: int) -> None:
        from safetensors.torch import save_file

        self.folder = folder
        folder.mkdir()
        rng = torch.Generator().manual_seed(seed)
        for number, rows in enumerate((600, 500, 130)):
            state = {f"layer.{number}.weight": torch.randn(rows, 1000, generator=rng)}
            save_file(state, folder / f"model-{number}.safetensors")
        (folder / "config.json").write_text('{"hidden_size": 1000}\n', encoding="utf-8")
        names = sorted(path.name for path in folder.iterdir())
        self.files = {name: (folder / name).read_bytes() for name in names}
        everybit.seal(folder, parity=redundancy)
        self.beside = {
            path.name: path.read_bytes() for path in folder.iterdir() if path.name not in self.files
        }
        manifest = json.loads((folder / "MANIFEST.everybit.json").read_bytes())
        self.stripes = int(manifest["parity"]["stripes"])
        self.borne = int(manifest["parity"]["parity_per_stripe"])
        self.code = str(manifest["parity"]["code"])
        self.row = [
            (name, inner)
            for name, data in self.files.items()
            for inner in range(-(-len(data) // LEAF_BYTES))
        ]

    @property
    def run(self) -> int:
        """Leaves in a row that may be lost."""
        return self.stripes * self.borne

    def lose(self, rng: random.Random, *, beyond: bool) -> dict[str, bytes | None]:
        """Draw a loss within the guarantee, or one beyond it."""
        kind = rng.randrange(4)
        if kind == 0:
            return self._contiguous(rng, beyond)
        if kind == 1:
            return self._tail(rng, beyond)
        if kind == 2 and not beyond:
            small = [n for n, data in self.files.items() if -(-len(data) // LEAF_BYTES) <= self.run]
            return {rng.choice(small): None}
        return self._scattered(rng, beyond)

    def _length(self, rng: random.Random, beyond: bool) -> int:
        most = (self.run - 1) * LEAF_BYTES + 1
        if beyond:
            return (self.run + 1) * LEAF_BYTES + rng.randrange(4 * LEAF_BYTES)
        return rng.randint(1, most)

    def _contiguous(self, rng: random.Random, beyond: bool) -> dict[str, bytes | None]:
        length = self._length(rng, beyond)
        name = rng.choice([n for n, data in self.files.items() if len(data) > length])
        data = self.files[name]
        at = rng.randrange(len(data) - length)
        new = rng.choice((bytes(length), rng.randbytes(length)))
        return {name: data[:at] + new + data[at + length :]}

    def _tail(self, rng: random.Random, beyond: bool) -> dict[str, bytes | None]:
        length = self._length(rng, beyond)
        name = rng.choice([n for n, data in self.files.items() if len(data) > length])
        return {name: self.files[name][:-length]}

    def _scattered(self, rng: random.Random, beyond: bool) -> dict[str, bytes | None]:
        leaves = list(range(len(self.row)))
        rng.shuffle(leaves)
        count: Counter[int] = Counter()
        hit = []
        for leaf in leaves:
            if beyond and leaf % self.stripes == leaves[0] % self.stripes:
                hit.append(leaf)
                if len(hit) > self.borne:
                    break
            elif not beyond and count[leaf % self.stripes] < self.borne and rng.random() < 0.6:
                count[leaf % self.stripes] += 1
                hit.append(leaf)
        changed: dict[str, bytearray] = {}
        for leaf in hit:
            name, inner = self.row[leaf]
            data = changed.setdefault(name, bytearray(self.files[name]))
            end = min(len(data), (inner + 1) * LEAF_BYTES)
            for _ in range(rng.randint(2, 40)):
                data[rng.randrange(inner * LEAF_BYTES, end)] ^= rng.randrange(1, 256)
        return {name: bytes(data) for name, data in changed.items()}

    def put_back(self) -> None:
        """Make the folder whole again."""
        for path in self.folder.iterdir():
            if path.name not in self.files and path.name not in self.beside:
                path.unlink()
        for name, data in {**self.files, **self.beside}.items():
            (self.folder / name).write_bytes(data)
