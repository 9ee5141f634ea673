"""Files with a seal: every leaf that differs, put right by what its digest proves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Certainty
from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES
from everybit.files import crc32
from everybit.files.damage import MalformedError
from everybit.files.parity.container import read_index
from everybit.files.parity.leaves import leaf_holds
from everybit.files.parity.record import PARITY_NAME
from everybit.files.passes import no_progress, read_leaves
from everybit.files.repair.mending import Evidence, Mend, Mending
from everybit.files.repair.rewrites import ends_within_tensor, few_bytes_differ, why_not_damage
from everybit.files.seals.localize import join_ranges, locate
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.files.parity.container import Index
    from everybit.files.parity.restoring import Restorer
    from everybit.files.seals.manifest import Manifest, SealedFile

#: Leaves in which damage wider than a bit is searched for (up to half a second each).
_MAX_SEARCHED: Final = 8
#: Bytes put back that are held in memory between planning and writing.
_HELD_BYTES: Final = 32 << 20

Leaf = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Right:
    """A leaf as it should be, and what told it."""

    data: bytes
    evidence: Evidence
    source: str = ""


@dataclass(slots=True, kw_only=True)
class SealedFolder:
    """A folder with its manifest, and all that can prove a leaf of it.

    Attributes:
        folder: Where the manifest's paths begin.
        manifest: What was sealed.
        copies: For a file's path in the manifest, where copies of it may lie.
        restorer: Parity; None without.
        progress: Is told the bytes read, as they are.
    """

    folder: Path
    manifest: Manifest
    copies: Callable[[str], list[Path]] = lambda _: []
    restorer: Restorer | None = None
    progress: Callable[[int], None] = no_progress
    _lost: set[Leaf] = field(default_factory=set)
    _held_bytes: int = 0

    def plan(self, path: str, mending: Mending) -> None:
        """Fill in how one file is put right; leaves that hold are left as they are.

        Args:
            path: Its path in the manifest.
            mending: Takes the mends and what is lost.

        Raises:
            PathError: It is there and cannot be read.
        """
        entry = self.manifest.files[path]
        mending.size_bytes = entry.size_bytes
        bad, size = self._differing(path, entry, mending)
        mending.proves = _prover(entry, frozenset())
        num_leaves = len(entry.leaves) // LEAF_DIGEST_BYTES
        anew = ""
        if size is not None and 2 * len(bad) > num_leaves:
            if not ends_within_tensor(entry, bad):
                anew = why_not_damage(self.folder / path)
            mending.keep = "more than half of it differs"
        elif size is not None and size > entry.size_bytes:
            mending.keep = "more bytes follow than were sealed"
        self._lost |= {(path, inner) for inner in bad}
        for step in (self._flip, self._copy, self._parity, self._search, self._parity):
            left = [inner for inner in bad if (path, inner) in self._lost]
            if step == self._search and len(left) > _MAX_SEARCHED:
                continue
            for inner in left:
                right = step(path, inner)
                if right is not None:
                    self._lost.discard((path, inner))
                    mending.mends.append(self._mend(path, inner, right, step))
        if anew and not few_bytes_differ(mending.mends, len(bad)):
            self._lost -= {(path, inner) for inner in bad}
            mending.mends.clear()
            mending.lost, mending.why_lost, mending.keep = [(0, entry.size_bytes)], anew, ""
            return
        left = [inner for inner in bad if (path, inner) in self._lost]
        mending.lost = join_ranges([_span(entry, inner) for inner in left])
        if left:
            mending.why_lost = self._why_lost(path, len(left), num_leaves)
        mending.proves = _prover(entry, frozenset(left))

    def any_leaf(self, path: str, inner: int) -> bytes | None:
        """Return a leaf from the file, or as flip or copy put it right; None where neither can.

        Raises:
            PathError: Its file cannot be read.
        """
        if path not in self.manifest.files:
            return self._read(path, inner)
        if (path, inner) not in self._lost:
            data = self._read(path, inner)
            if data is not None and leaf_holds(data, self._digest(path, inner)):
                return data
        right = self._flip(path, inner) or self._copy(path, inner)
        return right.data if right is not None else None

    def _differing(
        self, path: str, entry: SealedFile, mending: Mending
    ) -> tuple[list[int], int | None]:
        """Return which leaves differ, and the file's size; all of them where it is not there."""
        num_leaves = len(entry.leaves) // LEAF_DIGEST_BYTES
        place = self.folder / path
        if not place.is_file():
            return list(range(num_leaves)), None
        with ByteSource(place) as source:
            done = read_leaves(source, progress=self.progress)
            mending.num_bytes += done.num_bytes
            bad = _differing(done.leaves, entry.leaves)
            if bad and bad[-1] == num_leaves - 1 and source.size > entry.size_bytes:
                # Bytes were appended; the last leaf itself may be right.
                start, end = _span(entry, bad[-1])
                if leaf_holds(source.read(start, end - start), entry.leaf_digest(bad[-1])):
                    bad.pop()
            return bad, source.size

    def _digest(self, path: str, inner: int) -> bytes:
        return self.manifest.files[path].leaf_digest(inner)

    def _read(self, path: str, inner: int) -> bytes | None:
        place = self.folder / path
        if not place.is_file():
            return None
        with ByteSource(place) as source:
            entry = self.manifest.files.get(path)
            length = LEAF_BYTES if entry is None else _length(entry, inner)
            return source.read(inner * LEAF_BYTES, length)

    def _flip(self, path: str, inner: int) -> Right | None:
        return self._locate(path, inner, steps=())

    def _search(self, path: str, inner: int) -> Right | None:
        return self._locate(path, inner, steps=(crc32.BURST_BYTES, 1))

    def _locate(self, path: str, inner: int, *, steps: tuple[int, ...]) -> Right | None:
        entry = self.manifest.files[path]
        data = self._read(path, inner)
        if data is None or len(data) != _length(entry, inner):
            return None
        leaf = bytearray(data)
        found = locate(leaf, entry.leaf_crc(inner), entry.leaf_digest(inner), steps=steps)
        if found is None:
            return None
        for offset, byte in found.items():
            leaf[offset] = byte
        return Right(bytes(leaf), Evidence.LEAF)

    def _copy(self, path: str, inner: int) -> Right | None:
        entry = self.manifest.files[path]
        for place in self.copies(path):
            try:
                with ByteSource(place) as source:
                    data = source.read(inner * LEAF_BYTES, _length(entry, inner))
            except PathError:
                continue
            if leaf_holds(data, entry.leaf_digest(inner)):
                return Right(data, Evidence.COPY, str(place))
        return None

    def _parity(self, path: str, inner: int) -> Right | None:
        restorer = self.restorer
        if restorer is None or not restorer.covers(path, self.manifest.files[path].tree):
            return None
        data = restorer.restore(path, inner, self._lost)
        return Right(data, Evidence.PARITY, PARITY_NAME) if data is not None else None

    def _mend(
        self, path: str, inner: int, right: Right, step: Callable[[str, int], Right | None]
    ) -> Mend:
        """Return the mend of a leaf, no wider than what differs of it."""
        there = self._read(path, inner)
        low, high, count = 0, len(right.data), None
        if there is not None and len(there) == len(right.data):
            import numpy as np

            differs = np.frombuffer(there, np.uint8) != np.frombuffer(right.data, np.uint8)
            places = np.flatnonzero(differs)
            low, high, count = int(places[0]), int(places[-1]) + 1, len(places)
        held = right.data[low:high]
        keeps = self._held_bytes + len(held) <= _HELD_BYTES
        self._held_bytes += len(held) if keeps else 0

        def again() -> bytes:
            found = step(path, inner)
            return found.data[low:high] if found is not None else b""

        start = inner * LEAF_BYTES
        return Mend(
            start=start + low,
            end=start + high,
            evidence=right.evidence,
            certainty=Certainty.PROOF,
            fetch=(lambda: held) if keeps else again,
            num_bytes=count,
            source=right.source,
        )

    def _why_lost(self, path: str, num_lost: int, num_leaves: int) -> str:
        amount = f"{num_lost} of its {num_leaves} leaves of 64 KiB"
        tried = []
        if self.copies(path):
            tried.append("no copy holds them")
        if self.restorer is None:
            tried.append("there is no parity")
        elif not self.restorer.covers(path, self.manifest.files[path].tree):
            tried.append("its parity was computed from other bytes")
        else:
            tried.append("more of their stripes is lost than parity bears")
        return f"{amount} cannot be put back: {' and '.join(tried)}"


def _length(entry: SealedFile, inner: int) -> int:
    return min(LEAF_BYTES, entry.size_bytes - inner * LEAF_BYTES)


def _span(entry: SealedFile, inner: int) -> tuple[int, int]:
    start = inner * LEAF_BYTES
    return start, start + _length(entry, inner)


def _differing(found: bytes, wanted: bytes) -> list[int]:
    """Return which of the wanted leaf digests are not found in their place."""
    if found == wanted:
        return []
    size = LEAF_DIGEST_BYTES
    return [
        at // size
        for at in range(0, len(wanted), size)
        if found[at : at + size] != wanted[at : at + size]
    ]


def _prover(entry: SealedFile, lost: frozenset[int]) -> Callable[[Path], str]:
    """Return the test of a written file: every leaf but the lost ones, and the size."""

    def prove(path: Path) -> str:
        with ByteSource(path) as source:
            leaves = read_leaves(source).leaves
            wrong = [inner for inner in _differing(leaves, entry.leaves) if inner not in lost]
            if source.size != entry.size_bytes:
                return f"what was written has {source.size} bytes"
        return f"what was written differs from the seal in leaf {wrong[0]}" if wrong else ""

    return prove


def open_parity(folder: Path) -> tuple[ByteSource, Index] | None:
    """Open a folder's parity file; None where there is none or it does not hold.

    The caller closes the file.

    Raises:
        PathError: It is there and cannot be read.
    """
    path = folder / PARITY_NAME
    if not path.is_file():
        return None
    source = ByteSource(path)
    try:
        return source, read_index(source)
    except MalformedError:
        source.close()
        return None
