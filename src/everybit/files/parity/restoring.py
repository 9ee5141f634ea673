"""Lost leaves from parity: which can be restored, and their bytes, each proved by its digest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.files.parity.coding import rs_restore, xor_restore
from everybit.files.parity.layout import Code
from everybit.files.parity.leaves import leaf_holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from everybit.files.parity.container import Index
    from everybit.files.source import ByteSource


class Restorer:
    """Restores leaves of a parity set.

    Args:
        source: The parity file, open.
        index: Its index.
        fetch: Returns a leaf that is not lost, from the file or from wherever it was put right.
    """

    def __init__(
        self, source: ByteSource, index: Index, fetch: Callable[[str, int], bytes | None]
    ) -> None:
        self._source = source
        self._index = index
        self._fetch = fetch
        self._firsts = {
            path: first
            for (path, _), first in zip(
                index.layout.files, index.layout.first_leaves[:-1], strict=True
            )
        }
        self._good_blocks: dict[int, bool] = {}

    def covers(self, path: str, tree: object) -> bool:
        """Return whether the set protects a file with the content of this digest."""
        entry = self._index.manifest.files.get(path)
        return entry is not None and entry.tree == tree

    def decodable(self, lost: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return which of the lost leaves can be computed from the rest.

        Args:
            lost: `(path, leaf of the file)` of every leaf that is lost; those of files that the
                set does not cover are left out.
        """
        layout = self._index.layout
        by_stripe: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for path, inner in lost:
            if path in self._firsts:
                by_stripe[(self._firsts[path] + inner) % layout.stripes].add((path, inner))
        found: set[tuple[str, int]] = set()
        for stripe, leaves in by_stripe.items():
            if len(leaves) <= layout.parity_per_stripe and len(leaves) <= sum(
                self._block_holds(row * layout.stripes + stripe)
                for row in range(layout.parity_per_stripe)
            ):
                found |= leaves
        return found

    def restore(self, path: str, inner: int, lost: set[tuple[str, int]]) -> bytes | None:
        """Return the bytes of a lost leaf, or None where they cannot be computed.

        Args:
            path: Its file.
            inner: Which leaf of the file.
            lost: All that is lost, this one too.

        Raises:
            PathError: The parity file cannot be read.
        """
        layout = self._index.layout
        leaf = self._firsts[path] + inner
        stripe = leaf % layout.stripes
        blocks: dict[int, bytes] = {}
        missing: list[int] = []
        for place, other in enumerate(layout.stripe_leaves(stripe)):
            index, number = layout.file_of(other)
            key = layout.files[index][0], number
            data = None if key in lost else self._held(*key)
            if data is None:
                missing.append(place)
            else:
                blocks[place] = data.ljust(layout.block_bytes, b"\0")
            if len(missing) > layout.parity_per_stripe:
                return None
        restored = self._solve(stripe, blocks, missing, leaf // layout.stripes)
        if restored is None:
            return None
        restored = restored[: layout.leaf_bytes(leaf)]
        holds = leaf_holds(restored, self._index.manifest.files[path].leaf_digest(inner))
        return restored if holds else None

    def _held(self, path: str, inner: int) -> bytes | None:
        try:
            data = self._fetch(path, inner)
        except PathError:
            return None
        entry = self._index.manifest.files[path]
        return data if data is not None and leaf_holds(data, entry.leaf_digest(inner)) else None

    def _solve(
        self, stripe: int, blocks: dict[int, bytes], missing: list[int], wanted: int
    ) -> bytes | None:
        layout = self._index.layout
        parity = {}
        for row in range(layout.parity_per_stripe):
            block = row * layout.stripes + stripe
            data = self._source.read(self._index.block_start(block), layout.block_bytes)
            if leaf_holds(data, self._index.block_digest(block)):
                parity[row] = data
        if len(parity) < len(missing):
            return None
        if layout.code is Code.XOR:
            return xor_restore([*blocks.values(), parity[0]], layout.block_bytes)
        num_data = layout.data_per_stripe
        # A short stripe ends in leaves that no file has: zeros.
        for place in range(len(layout.stripe_leaves(stripe)), num_data):
            blocks[place] = bytes(layout.block_bytes)
        blocks |= {num_data + row: data for row, data in parity.items()}
        found = rs_restore(blocks, [wanted], num_data, layout.parity_per_stripe)
        return found[wanted]

    def _block_holds(self, block: int) -> bool:
        if block not in self._good_blocks:
            start, size = self._index.block_start(block), self._index.layout.block_bytes
            data = self._source.read(start, size)
            self._good_blocks[block] = leaf_holds(data, self._index.block_digest(block))
        return self._good_blocks[block]
