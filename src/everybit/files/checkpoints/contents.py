"""One file of a checkpoint: its tensors in key order and the plain values beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.errors import DamagedError, PathError
from everybit.files.elements import canonical_chunks, expands_too_far, tensor_digest
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from everybit.files.pickles.plain import Plain

_NOT_TRAINED: Final = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})
_LAST: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one file says, without its tensors' bytes.

    Attributes:
        path: The file.
        name: Its path relative to the target.
        size_bytes: Its size.
        format: Its format.
        tensors: In the order of the file's own keys where the format keeps it.
        values: Plain values by dotted key path.
        ordered: The order of `tensors` is that of the keys.
        whole: Its structure was read to the end, without damage.
        why: Why it was not; empty where it was.
    """

    path: Path
    name: str
    size_bytes: int
    format: FileFormat
    tensors: tuple[FileTensor, ...] = ()
    values: Mapping[str, Plain] = field(default_factory=dict)
    ordered: bool = False
    whole: bool = True
    why: str = ""

    def by_name(self) -> dict[str, FileTensor]:
        """Return `{name: tensor}`."""
        return {tensor.name: tensor for tensor in self.tensors}


def read_contents(path: str | PathLike[str], name: str = "") -> Contents:
    """Read what a file says of itself; damage makes it not `whole`.

    Args:
        path: The file.
        name: Its path relative to the target; its own name where empty.

    Raises:
        PathError: It cannot be read.
    """
    place = Path(path)
    with ByteSource(place) as source:
        structure = read_structure(source)
        size = source.size
    why = structure.damages[0].message if structure.damages else structure.given_up
    if not structure.format.readable:
        why = why or f"its format is {structure.format}"
    ordered = structure.format is not FileFormat.SAFETENSORS
    tensors = structure.tensors
    return Contents(
        path=place,
        name=name or place.name,
        size_bytes=size,
        format=structure.format,
        tensors=tuple(sorted(tensors, key=_key_order)) if ordered else tensors,
        values=structure.values,
        ordered=ordered,
        whole=not why,
        why=why,
    )


def _key_order(tensor: FileTensor) -> tuple[int, int]:
    # `torch.save` numbers storages as it meets them, so the number is the order of the keys.
    number = (tensor.member or "").rpartition("/")[2]
    return (int(number) if number.isdecimal() and len(number) < 12 else _LAST, tensor.start)


def is_learned(tensor: FileTensor) -> bool:
    """Return whether training can move a tensor: floating point, and more than one number."""
    return tensor.dtype not in _NOT_TRAINED and tensor.num_elements > 1


def read_scalars(contents: Contents, tensors: Iterable[FileTensor]) -> dict[str, float]:
    """Return the values of tensors of one element, by name; what cannot be read is left out.

    Raises:
        PathError: The file cannot be read.
    """
    from everybit.core.dtype import ITEMSIZE, decode

    found: dict[str, float] = {}
    with ByteSource(contents.path) as source:
        for tensor in tensors:
            if tensor.num_elements != 1 or tensor.unreadable or tensor.dtype not in ITEMSIZE:
                continue
            data = b"".join(bytes(chunk) for chunk in canonical_chunks(source, tensor))
            if len(data) != tensor.itemsize:
                continue
            value = decode(tensor.dtype, data)
            if isinstance(value, int | float):
                found[tensor.name] = float(value)
    return found


class Digests:
    """Digests of tensors, each read once and kept.

    Attributes:
        num_bytes: Bytes read so far.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self.num_bytes = 0

    def of(self, contents: Contents, tensors: Iterable[FileTensor]) -> dict[str, str]:
        """Return the digests of some of a file's tensors by name; unreadable ones are left out.

        Raises:
            PathError: The file cannot be read.
        """
        wanted = list(tensors)
        if any((contents.name, tensor.name) not in self._known for tensor in wanted):
            with ByteSource(contents.path) as source:
                source.advise_sequential()
                for tensor in wanted:
                    key = (contents.name, tensor.name)
                    if key in self._known or tensor.unreadable or expands_too_far(tensor):
                        continue
                    self._known[key] = tensor_digest(source, tensor).hex
                    self.num_bytes += tensor.num_bytes
        return {
            tensor.name: self._known[contents.name, tensor.name]
            for tensor in wanted
            if (contents.name, tensor.name) in self._known
        }


class Shelf:
    """The files of a target, each read once when first asked for.

    Attributes:
        files: Every file by its path relative to the target.
        digests: The tensors' digests.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)
        self.digests = Digests()
        self._known: dict[str, Contents | None] = {}
        self.unread: dict[str, str] = {}

    def get(self, name: str) -> Contents | None:
        """Return a file's contents; None where it is not there or cannot be read."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def size_of(self, name: str) -> int:
        """Return a file's size in bytes; 0 where it cannot be looked at."""
        try:
            return self.files[name].stat().st_size
        except (KeyError, OSError):
            return 0

    def forget(self, names: Iterable[str]) -> None:
        """Let go of what some files say, so that many checkpoints fit into memory."""
        for name in names:
            self._known.pop(name, None)

    def whole(self, name: str) -> Contents | None:
        """Return a file's contents where its structure is whole."""
        found = self.get(name)
        return found if found is not None and found.whole else None

    def _read(self, name: str) -> Contents | None:
        path = self.files.get(name)
        if path is None:
            return None
        try:
            return read_contents(path, name)
        except (PathError, DamagedError) as error:
            self.unread[name] = error.what
            return None
