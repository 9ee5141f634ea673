"""Neighbouring checkpoints: earlier and later saves of the same model, as witnesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import EverybitError, PathError
from everybit.files.reading import read_structure
from everybit.files.repair.plausible import MIN_ELEMENTS, Standing, sample, standing, values_at
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor

_MAX_NEIGHBOURS: Final = 3
_MAX_LOOKED_AT: Final = 2000
#: A neighbour of another size is another model.
_SIZE_TOLERANCE: Final = 0.02
#: How unlikely it is that wider damage puts a flip where a neighbour holds just the mended value.
_BY_CHANCE: Final = 1e-6


def list_neighbours(path: Path) -> list[Path]:
    """Return files that may be other saves of the same model, the nearest in time first.

    Files of the same suffix and about the same size in the folder, and files of the same name in
    the folders beside it.
    """
    found: list[tuple[float, Path]] = []
    try:
        own = path.stat()
        beside = [each for each in _first(path.parent.iterdir()) if each.suffix == path.suffix]
        beside += [
            each / path.name
            for each in _first(path.absolute().parent.parent.iterdir())
            if each.is_dir() and each.absolute() != path.absolute().parent
        ]
        for each in beside:
            if each.name.startswith(".") or not each.is_file() or each.samefile(path):
                continue
            there = each.stat()
            if abs(there.st_size - own.st_size) <= _SIZE_TOLERANCE * own.st_size + 4096:
                found.append((abs(there.st_mtime - own.st_mtime), each))
    except OSError:
        return []
    return [each for _, each in sorted(found)[:_MAX_NEIGHBOURS]]


def _first(entries: object) -> list[Path]:
    from itertools import islice

    return list(islice(entries, _MAX_LOOKED_AT))  # type: ignore[call-overload]


@dataclass(slots=True)
class Neighbours:
    """Neighbours of one file, opened when they are first asked for."""

    path: Path
    _read: list[tuple[Path, Structure]] | None = field(default=None)

    def standings(
        self, source: ByteSource, tensor: FileTensor, offset: int, mask: int
    ) -> list[Standing]:
        """Hold an element, as found and as mended, against the same element of each neighbour.

        The distance to the neighbour's value is usual or unusual among the distances of the whole
        tensor.

        Args:
            source: The file.
            tensor: Its tensor.
            offset: The byte in the file.
            mask: The bits that the mend flips in it.

        Raises:
            PathError: The file itself cannot be read.
        """
        pair = values_at(source, tensor, offset, mask)
        ours = sample(source, tensor)
        if pair is None or ours is None or len(ours) < MIN_ELEMENTS:
            return []
        found = []
        for path, structure in self._structures():
            other = next((t for t in structure.tensors if _same(t, tensor)), None)
            if other is None:
                continue
            try:
                with ByteSource(path) as there:
                    one = self._against(there, other, tensor, offset, ours, pair)
            except PathError:
                continue
            if one is not None:
                found.append(one)
        return found

    def _against(
        self,
        there: ByteSource,
        other: FileTensor,
        tensor: FileTensor,
        offset: int,
        ours: Any,
        pair: tuple[float, float],
    ) -> Standing | None:
        import numpy as np

        theirs = sample(there, other)
        held = values_at(there, other, other.start + (offset - tensor.start), 0)
        if theirs is None or held is None or len(theirs) != len(ours):
            return None
        value = held[0]
        name = f"{there.path.parent.name}/{there.path.name}"
        if np.array_equal(theirs, ours, equal_nan=True):
            return None  # a copy of the damaged file says nothing
        if value == pair[1] and value and value != pair[0] and tensor.itemsize > 1:
            return Standing(found=_BY_CHANCE, mended=1.0, reference=f"the same element of {name}")
        with np.errstate(all="ignore"):
            distances = np.abs(np.subtract(ours, theirs))
        found, mended = abs(pair[0] - value), abs(pair[1] - value)
        reference = f"the same element of {name}"
        return standing(distances, found, mended, reference=reference, remove=found)

    def _structures(self) -> list[tuple[Path, Structure]]:
        if self._read is None:
            self._read = []
            for path in list_neighbours(self.path):
                try:
                    with ByteSource(path) as source:
                        structure = read_structure(source)
                except EverybitError:
                    continue
                if structure.tensors and not structure.damages:
                    self._read.append((path, structure))
        return self._read


def _same(one: FileTensor, other: FileTensor) -> bool:
    return (
        one.name == other.name
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride == other.stride
        and not one.unreadable
    )
