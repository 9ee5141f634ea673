"""Megatron's `.idx`: for a `.bin` of token ids, where each sequence lies in it.

A magic, a version, a dtype code, the numbers of sequences and documents, then the sequences'
lengths (32 bits), their byte offsets (64 bits), the documents' first sequences (64 bits), and in
some files one byte of mode a sequence. Offsets and lengths say the same thing twice, so each is a
check of the other.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage, MalformedError, cut_short, malformed
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

MAGIC: Final = b"MMIDIDX\x00\x00"
_HEADER: Final = struct.Struct("<9sQBQQ")
_DTYPES: Final = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32",
    8: "uint16",
}  # fmt: skip
_BLOCK: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    dtype: str
    num_sequences: int
    num_documents: int

    @property
    def lengths(self) -> int:
        """Offset of the lengths."""
        return _HEADER.size

    @property
    def pointers(self) -> int:
        """Offset of the byte offsets."""
        return self.lengths + 4 * self.num_sequences

    @property
    def documents(self) -> int:
        """Offset of the documents."""
        return self.pointers + 8 * self.num_sequences

    @property
    def end(self) -> int:
        """Offset after the documents."""
        return self.documents + 8 * self.num_documents


def _read_header(source: ByteSource) -> _Header:
    raw = source.read(0, _HEADER.size)
    if len(raw) < _HEADER.size:
        raise _cut(source, _HEADER.size)
    _, version, code, num_sequences, num_documents = _HEADER.unpack(raw)
    if version != 1:
        raise malformed(f"its header says version {version}", byte_range=(9, 17))
    if code not in _DTYPES:
        raise malformed(f"its header says dtype code {code}", byte_range=(17, 18))
    header = _Header(dtype=_DTYPES[code], num_sequences=num_sequences, num_documents=num_documents)
    if header.end > source.size:
        raise _cut(source, header.end)
    return header


def _cut(source: ByteSource, wanted: int) -> MalformedError:
    message = f"ends after {source.size} of at least {wanted} bytes"
    return MalformedError(cut_short(message, source.size, wanted, "its header"))


def read_extent(source: ByteSource) -> tuple[str, int]:
    """Return the dtype of the ids, and how many bytes the `.bin` beside an index has to have.

    Raises:
        MalformedError: The index is cut or cannot be right.
    """
    header = _read_header(source)
    if not header.num_sequences:
        return header.dtype, 0
    last = header.num_sequences - 1
    start = int.from_bytes(source.read(header.pointers + 8 * last, 8), "little", signed=True)
    length = int.from_bytes(source.read(header.lengths + 4 * last, 4), "little", signed=True)
    if start < 0 or length < 0:
        raise malformed("its last sequence has a negative place or length")
    return header.dtype, start + length * STORED_ITEMSIZE[header.dtype]


def read_structure(source: ByteSource) -> Structure:
    """Read and check an index.

    Raises:
        MalformedError: It is cut (FIL104) or its header cannot be right (FIL107).
    """
    header = _read_header(source)
    damages = _check_sequences(source, header) or _check_documents(source, header)
    spans = [
        ("lengths", "int32", header.lengths, header.num_sequences),
        ("pointers", "int64", header.pointers, header.num_sequences),
        ("documents", "int64", header.documents, header.num_documents),
    ]
    left = source.size - header.end
    if left == header.num_sequences and left:
        spans.append(("modes", "int8", header.end, left))
    elif left and not damages:
        message = f"{left} bytes follow its documents"
        damages = [_damage(message, header.end, source.size)]
    return Structure(
        format=FileFormat.TOKENS,
        tensors=tuple(_tensor(*span) for span in spans),
        damages=tuple(damages),
    )


def _tensor(name: str, dtype: str, start: int, count: int) -> FileTensor:
    end = start + count * STORED_ITEMSIZE[dtype]
    return FileTensor(
        name=name,
        dtype=dtype,
        shape=(count,),
        stride=(1,),
        byte_ranges=((start, end),) if count else (),
        start=start,
    )


def _check_sequences(source: ByteSource, header: _Header) -> list[Damage]:
    """Return the first place where offsets and lengths disagree: each sequence follows the last."""
    size = STORED_ITEMSIZE[header.dtype]
    expected = 0
    for first in range(0, header.num_sequences, _BLOCK):
        count = min(_BLOCK, header.num_sequences - first)
        lengths = _numbers(source, header.lengths + 4 * first, count, "<i4")
        pointers = _numbers(source, header.pointers + 8 * first, count, "<i8")
        if (lengths < 0).any():
            at = header.lengths + 4 * (first + int((lengths < 0).argmax()))
            return [_damage("a sequence has a negative length", at, at + 4)]
        wanted = expected + size * (lengths.cumsum() - lengths)
        wrong = pointers != wanted
        if wrong.any():
            index = int(wrong.argmax())
            at = header.pointers + 8 * (first + index)
            return [
                _damage(
                    f"sequence {first + index} begins at byte {int(pointers[index])} by its "
                    f"offset and at byte {int(wanted[index])} by the lengths before it",
                    at,
                    at + 8,
                )
            ]
        expected += size * int(lengths.sum())
    return []


def _check_documents(source: ByteSource, header: _Header) -> list[Damage]:
    """Return the first document that begins before the one before it, or past the sequences."""
    last = 0
    for first in range(0, header.num_documents, _BLOCK):
        count = min(_BLOCK, header.num_documents - first)
        begins = _numbers(source, header.documents + 8 * first, count, "<i8")
        steps = begins.copy()
        steps[1:] -= begins[:-1]
        steps[0] -= last
        wrong = (steps < 0) | (begins > header.num_sequences)
        if wrong.any():
            index = int(wrong.argmax())
            at = header.documents + 8 * (first + index)
            message = f"document {first + index} begins at sequence {int(begins[index])}"
            return [_damage(f"{message}, which cannot be", at, at + 8)]
        last = int(begins[-1])
    if header.num_documents and last != header.num_sequences:
        at = header.end - 8
        message = f"its documents end at sequence {last} of {header.num_sequences}"
        return [_damage(message, at, at + 8)]
    return []


def _numbers(source: ByteSource, start: int, count: int, kind: str) -> Any:
    import numpy as np

    width = int(kind[-1])
    raw = source.read(start, count * width).ljust(count * width, b"\0")
    return np.frombuffer(raw, dtype=kind).astype(np.int64)


def _damage(message: str, start: int, end: int) -> Damage:
    return Damage(rule="FIL107", message=message, where=Location(byte_range=(start, end)))
