"""Token files: ids end to end, and what describes them.

Three kinds: llm.c's `.bin` (a header of 256 integers), Megatron's `.bin` with a `.idx` beside it,
and nanoGPT's bare `.bin` with a `meta.pkl` beside it. None carries a checksum; the description is
held against the size, and the vocabulary against the dtype and the ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.files.damage import Damage, MalformedError, cut_short, malformed
from everybit.files.formats import megatron
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.nodes import DictNode
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.pickles.torch_values import as_text
from everybit.files.source import ByteSource
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from pathlib import Path

META_NAME: Final = "meta.pkl"
#: Formats that the head of a bare token file may seem to have.
POSSIBLE: Final = frozenset({FileFormat.UNKNOWN, FileFormat.ZEROS, FileFormat.TEXT})
#: llm.c's magic numbers, with the dtype and version of each.
_LLMC: Final = {20240520: ("uint16", 1), 20240801: ("uint32", 7)}
_LLMC_HEADER_BYTES: Final = 1024
_SAMPLE_BYTES: Final = 1024 * 1024
_MAX_META_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLayout:
    """How ids lie in a file.

    Attributes:
        dtype: Canonical dtype name of an id.
        start: Offset of the first id.
        count: How many are promised; None where nothing promises a number.
        promised_by: What promises it.
        vocab_size: How many ids there are to choose from; None where nothing says it.
        member_of: File that describes this one; "" where it describes itself.
    """

    dtype: str
    start: int
    count: int | None
    promised_by: str
    vocab_size: int | None = None
    member_of: str = ""


def is_token_head(head: bytes) -> bool:
    """Return whether a file's first bytes are those of llm.c or of a Megatron index."""
    return int.from_bytes(head[:4], "little") in _LLMC or head[:9] == megatron.MAGIC


def has_description(source: ByteSource) -> bool:
    """Return whether a file without a mark of its own has its description beside it."""
    return source.path.suffix == ".bin" and (
        _index_of(source.path) is not None or _vocabulary_beside(source.path) is not None
    )


def read_structure(source: ByteSource) -> Structure:
    """Read and check a token file, or a Megatron index.

    Raises:
        MalformedError: Its header or its description is cut or cannot be right.
    """
    if source.read(0, 9) == megatron.MAGIC:
        return megatron.read_structure(source)
    layout = read_layout(source)
    if layout is None:
        return Structure(format=FileFormat.UNKNOWN)
    size = STORED_ITEMSIZE[layout.dtype]
    there = max(0, source.size - layout.start)
    count = there // size if layout.count is None else layout.count
    end = layout.start + count * size
    tensor = FileTensor(
        name="tokens",
        dtype=layout.dtype,
        shape=(count,),
        stride=(1,),
        byte_ranges=((layout.start, end),) if count else (),
        start=layout.start,
    )
    damages = [*_check_size(source, layout, end), *_check_vocabulary(source, layout)]
    return Structure(format=FileFormat.TOKENS, tensors=(tensor,), damages=tuple(damages))


def read_layout(source: ByteSource) -> TokenLayout | None:
    """Return how ids lie in a file; None for one that nothing describes.

    Raises:
        MalformedError: Its header or its description is cut or cannot be right.
    """
    known = _LLMC.get(int.from_bytes(source.read(0, 4), "little"))
    if known is not None:
        return _read_llmc(source, *known)
    index = _index_of(source.path)
    if index is not None:
        with ByteSource(index) as beside:
            dtype, num_bytes = megatron.read_extent(beside)
        return TokenLayout(
            dtype=dtype,
            start=0,
            count=num_bytes // STORED_ITEMSIZE[dtype],
            promised_by=index.name,
            member_of=index.name,
        )
    vocab_size = _vocabulary_beside(source.path)
    if vocab_size is None:
        return None
    return TokenLayout(
        dtype=_guess_dtype(source, vocab_size),
        start=0,
        count=None,
        promised_by="",
        vocab_size=vocab_size,
        member_of=META_NAME,
    )


def _read_llmc(source: ByteSource, dtype: str, version: int) -> TokenLayout:
    if source.size < _LLMC_HEADER_BYTES:
        raise malformed(
            f"ends within its header: {source.size} bytes of {_LLMC_HEADER_BYTES}",
            rule="FIL104",
            byte_range=(source.size, _LLMC_HEADER_BYTES),
            evidence={"size_bytes": source.size, "promised_by": "its header", "readable": []},
        )
    found = int.from_bytes(source.read(4, 4), "little", signed=True)
    count = int.from_bytes(source.read(8, 4), "little", signed=True)
    if found != version:
        raise malformed(
            f"its header says version {found}, its magic number version {version}",
            byte_range=(4, 8),
        )
    if count < 0:
        raise malformed(f"its header counts {count} tokens", byte_range=(8, 12))
    return TokenLayout(dtype=dtype, start=_LLMC_HEADER_BYTES, count=count, promised_by="its header")


def _check_size(source: ByteSource, layout: TokenLayout, end: int) -> list[Damage]:
    if source.size < end:
        message = f"ends after {source.size} of {end} bytes"
        return [cut_short(message, source.size, end, layout.promised_by)]
    if source.size == end:
        return []
    left = source.size - end
    if layout.count is None:
        message = f"has {left} bytes too many for whole ids of {layout.dtype}"
    else:
        message = f"has {left} bytes more than {layout.promised_by} says"
    return [Damage(rule="FIL107", message=message, where=Location(byte_range=(end, source.size)))]


def _check_vocabulary(source: ByteSource, layout: TokenLayout) -> list[Damage]:
    """Return the damage of a vocabulary whose ids the dtype cannot hold: they have wrapped."""
    room = 1 << (8 * STORED_ITEMSIZE[layout.dtype])
    if layout.vocab_size is None or layout.vocab_size <= room:
        return []
    return [
        Damage(
            rule="FIL114",
            message=f"holds ids as {layout.dtype}, which ends at {room - 1}; {layout.member_of} "
            f"says a vocabulary of {layout.vocab_size}, so larger ids have wrapped around",
            where=Location(byte_range=(layout.start, source.size)),
            evidence={
                "listed_by": layout.member_of,
                "vocab_size": layout.vocab_size,
                "dtype": layout.dtype,
            },
        )
    ]


def _guess_dtype(source: ByteSource, vocab_size: int) -> str:
    """Return the dtype of bare ids: the wider one only where the ids say so.

    Read as 32 bits, ids of 16 bits come in pairs, far beyond any vocabulary unless every second
    one is zero.
    """
    import numpy as np

    raw = source.read(0, min(_SAMPLE_BYTES, source.size) // 4 * 4)
    if source.size % 4 or not raw:
        return "uint16"
    wide = np.frombuffer(raw, dtype="<u4")
    narrow = np.frombuffer(raw, dtype="<u2")
    if int(wide.max()) < vocab_size and (vocab_size > 1 << 16 or narrow[0::2].any()):
        return "uint32"
    return "uint16"


def _index_of(path: Path) -> Path | None:
    index = path.with_suffix(".idx")
    if path.suffix != ".bin" or not index.is_file():
        return None
    try:
        with ByteSource(index) as beside:
            return index if beside.read(0, 9) == megatron.MAGIC else None
    except PathError:
        return None


def _vocabulary_beside(path: Path) -> int | None:
    """Return the vocabulary size that a `meta.pkl` beside a file says; None without one."""
    place = path.parent / META_NAME
    if not place.is_file():
        return None
    try:
        with ByteSource(place) as beside:
            if beside.size > _MAX_META_BYTES:
                return None
            node = read_pickle_at(beside, 0, META_NAME).pickle.result
    except (PathError, MalformedError):
        return None
    for key, value in node.pairs if isinstance(node, DictNode) else []:
        if as_text(key) == "vocab_size" and type(value) is int and 0 < value < 1 << 40:
            return value
    return None
