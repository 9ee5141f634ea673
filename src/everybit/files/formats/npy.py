"""NumPy's `.npy`: a magic, a version, a header that is a Python literal, and the elements.

The header is matched against what NumPy writes; only where it departs from that is it read as a
literal, bounded in length. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files.damage import Damage, MalformedError, TooLargeError, cut_short, malformed
from everybit.files.geometry import row_major, shape_problem
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

MAGIC: Final = b"\x93NUMPY"
#: NumPy itself refuses headers of more than 10,000 bytes unless told otherwise.
_MAX_HEADER_BYTES: Final = 64 * 1024
_LENGTH_BYTES: Final = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_PLAIN: Final = re.compile(
    rb"\{'descr': '([<>|=])([a-zA-Z])(\d{1,4})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, )*(?:\d{1,19},?)?)\), \} *\n"
)
# Python 2 wrote sizes as `3L`; NumPy still reads them.
_PYTHON_2_LONG: Final = re.compile(r"(?<=[(\s,])(\d+)L(?=[\s,)])")
_DTYPES: Final = {
    "b1": "bool", "i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32",
    "u4": "uint32", "i8": "int64", "u8": "uint64", "f2": "float16", "f4": "float32",
    "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
_TYPE: Final = re.compile(r"([<>|=])([a-zA-Z])(\d{1,9})?(?:\[[^\]]{1,32}\])?")
_MAX_DEPTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a header says.

    Attributes:
        dtype: Canonical name; "" where elements are no plain numbers.
        kind: What the elements are, for people, where `dtype` is "".
        itemsize: Bytes an element; None where a pickle stands in place of elements.
        big_endian: Elements are big-endian.
        fortran: The first index runs fastest.
        shape: Shape.
        end: Offset of the first element.
    """

    dtype: str
    kind: str
    itemsize: int | None
    big_endian: bool
    fortran: bool
    shape: tuple[int, ...]
    end: int

    @property
    def num_bytes(self) -> int | None:
        """Bytes of the elements; None where the header does not say."""
        if self.itemsize is None:
            return None
        count = self.itemsize
        for size in self.shape:
            count *= size
        return count


def read_structure(source: ByteSource) -> Structure:
    """Read and check the header, and the file's size against it.

    Raises:
        MalformedError: The header is cut (FIL104) or cannot be right (FIL107).
    """
    header = read_header(source)
    tensor = place_array(header, "array", 0)
    skipped = (
        [] if tensor is not None else [Skipped(what="its array", why=header.kind, promised=False)]
    )
    wanted = header.num_bytes
    damages: tuple[Damage, ...] = ()
    if wanted is not None:
        damages = _check_size(source, header.end + wanted, skipped)
    return Structure(
        format=FileFormat.NPY,
        tensors=() if tensor is None else (tensor,),
        damages=damages,
        skipped=tuple(skipped),
    )


def place_array(header: Header, name: str, base: int) -> FileTensor | None:
    """Return the array as a tensor whose file begins at an offset; None where it is no numbers."""
    if not header.dtype:
        return None
    stride = row_major(header.shape)
    if header.fortran:
        stride = tuple(reversed(row_major(tuple(reversed(header.shape)))))
    start = base + header.end
    length = header.num_bytes or 0
    return FileTensor(
        name=name,
        dtype=header.dtype,
        shape=header.shape,
        stride=stride,
        byte_ranges=((start, start + length),) if length else (),
        start=start,
        big_endian=header.big_endian,
    )


def _check_size(source: ByteSource, end: int, skipped: list[Skipped]) -> tuple[Damage, ...]:
    if source.size < end:
        message = f"ends after {source.size} of {end} bytes"
        return (cut_short(message, source.size, end, "its header"),)
    if source.size == end:
        return ()
    if source.read(end, len(MAGIC)) == MAGIC:
        why = f"a second array follows the first in the same file, from byte {end} on"
        skipped.append(Skipped(what="arrays after the first", why=why))
        return ()
    return (
        Damage(
            rule="FIL107",
            message=f"{source.size - end} bytes follow its array",
            where=Location(byte_range=(end, source.size)),
        ),
    )


def read_header(source: ByteSource) -> Header:
    """Read the header at the start of a file or member.

    Raises:
        MalformedError: It is cut (FIL104) or cannot be right (FIL107).
        TooLargeError: It is longer than this release reads.
    """
    head = source.read(0, 12)
    if len(head) < 10:
        raise _cut(source, 10)
    if head[:6] != MAGIC:
        raise malformed("does not start with NumPy's magic", byte_range=(0, 6))
    width = _LENGTH_BYTES.get((head[6], head[7]))
    if width is None:
        message = f"has version {head[6]}.{head[7]} of the npy format, which is not known"
        raise malformed(message, byte_range=(6, 8))
    start = 8 + width
    length = int.from_bytes(head[8:start], "little")
    if start + length > source.size:
        raise _cut(source, start + length)
    if length > _MAX_HEADER_BYTES:
        raise TooLargeError(malformed(f"its header has {length} bytes").damage)
    raw = source.read(start, length)
    place = (start, start + length)
    descr, fortran, shape = _parse(raw, place)
    problem = shape_problem(shape)
    if problem:
        raise malformed(f"its header gives {problem}", byte_range=place)
    dtype, kind, itemsize, big_endian = _describe(descr, place)
    return Header(
        dtype=dtype,
        kind=kind,
        itemsize=itemsize,
        big_endian=big_endian,
        fortran=fortran,
        shape=shape,
        end=start + length,
    )


def _cut(source: ByteSource, wanted: int) -> MalformedError:
    message = f"ends within its header: {source.size} bytes of at least {wanted}"
    return MalformedError(cut_short(message, source.size, wanted, "its header"))


def _parse(raw: bytes, place: tuple[int, int]) -> tuple[Any, bool, tuple[int, ...]]:
    match = _PLAIN.fullmatch(raw)
    if match is not None:
        order, kind, size, fortran, sizes = (part.decode() for part in match.groups())
        shape = tuple(int(each) for each in sizes.replace(" ", "").split(",") if each)
        return order + kind + size, fortran == "True", shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.literal_eval(_PYTHON_2_LONG.sub(r"\1", raw.decode("utf-8").strip()))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise malformed("its header is no literal that NumPy writes", byte_range=place) from None
    if not isinstance(found, dict) or found.keys() != {"descr", "fortran_order", "shape"}:
        raise malformed("its header has other keys than NumPy writes", byte_range=place)
    shape, fortran = found["shape"], found["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(each) is int for each in shape):
        raise malformed("its shape is no tuple of sizes", byte_range=place)
    if not isinstance(fortran, bool):
        raise malformed("its fortran_order is neither true nor false", byte_range=place)
    return found["descr"], fortran, shape


def _describe(descr: Any, place: tuple[int, int]) -> tuple[str, str, int | None, bool]:
    """Return canonical dtype, what it is otherwise, bytes an element, and whether big-endian."""
    if not isinstance(descr, str):
        record = _record_size(descr, 0)
        if record is None:
            raise malformed("its header gives a dtype that cannot be", byte_range=place)
        return (
            "",
            "its elements are records of several fields",
            None if record < 0 else record,
            False,
        )
    match = _TYPE.fullmatch(descr)
    if match is None:
        raise malformed(f"its header gives dtype {descr[:40]!r}", byte_range=place)
    order, kind, size = match.group(1), match.group(2), match.group(3) or ""
    if kind == "O":
        return "", "its elements are Python objects, held in a pickle", None, False
    name = _DTYPES.get(kind + size)
    if name is not None:
        return name, "", int(size), order == ">"
    itemsize = _plain_size(kind, size)
    if itemsize is None:
        raise malformed(f"its header gives dtype {descr[:40]!r}", byte_range=place)
    what = {"U": "text", "S": "bytes", "V": "raw bytes", "M": "dates", "m": "durations"}
    return "", f"its elements are {what.get(kind, f'of dtype {descr[:40]}')}", itemsize, False


def _plain_size(kind: str, size: str) -> int | None:
    if kind == "U":
        return 4 * int(size or 0)
    if kind in "SaV":
        return int(size or 0)
    if kind in "Mm":
        return 8
    return int(size) if kind in "fc" and size in ("12", "16", "24", "32") else None


def _record_size(descr: Any, depth: int) -> int | None:
    """Return the bytes of a structured element; -1 with objects in it, None where impossible."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(descr, str):
        match = _TYPE.fullmatch(descr)
        if match is None:
            return None
        kind, size = match.group(2), match.group(3) or ""
        known = int(size) if kind + size in _DTYPES else _plain_size(kind, size)
        return -1 if kind == "O" else known
    if not isinstance(descr, list):
        return None
    total = 0
    for field in descr:
        if not isinstance(field, tuple) or len(field) not in (2, 3):
            return None
        inner = _record_size(field[1], depth + 1)
        if inner is None:
            return None
        if inner < 0:
            return -1
        sizes = field[2] if len(field) == 3 else ()
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        for each in sizes:
            if type(each) is not int or not 0 <= each < 1 << 40:
                return None
            inner *= each
        total += inner
        if total > 1 << 40:
            return None
    return total
