"""The safetensors format: an 8-byte length, a JSON header, and the tensors end to end.

Checked here is all that the format promises: the header parses, every tensor's bytes fit its dtype
and shape, and the tensors tile the rest of the file with neither hole nor overlap. The format
carries no checksum, so a flipped bit inside a tensor can only be seen with a manifest.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NoReturn

from everybit.core.finding import Location
from everybit.files.damage import Damage, MalformedError, TooLargeError, cut_short, malformed
from everybit.files.geometry import row_major, shape_problem
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

#: The format's own limit.
MAX_HEADER_BYTES: Final = 100_000_000
# A header of a million tensors has fewer; what has more is made to fill the memory of its reader.
_MAX_BRACKETS: Final = 4_000_000
_MAX_COMMAS: Final = 8_000_000
_MAX_DAMAGES: Final = 100

#: dtype names of the format: canonical name, bits an element of the format, elements of the
#: format in one of the canonical dtype.
_DTYPES: Final[dict[str, tuple[str, int, int]]] = {
    "BOOL": ("bool", 8, 1),
    "U8": ("uint8", 8, 1),
    "I8": ("int8", 8, 1),
    "U16": ("uint16", 16, 1),
    "I16": ("int16", 16, 1),
    "U32": ("uint32", 32, 1),
    "I32": ("int32", 32, 1),
    "U64": ("uint64", 64, 1),
    "I64": ("int64", 64, 1),
    "F16": ("float16", 16, 1),
    "BF16": ("bfloat16", 16, 1),
    "F32": ("float32", 32, 1),
    "F64": ("float64", 64, 1),
    "C64": ("complex64", 64, 1),
    "F8_E4M3": ("float8_e4m3fn", 8, 1),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8, 1),
    "F8_E5M2": ("float8_e5m2", 8, 1),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8, 1),
    "F8_E8M0": ("float8_e8m0fnu", 8, 1),
    "F4": ("float4_e2m1fn_x2", 4, 2),
}


class _DuplicateError(ValueError):
    pass


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise _DuplicateError(f"key {twice[:80]!r} stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def read_structure(source: ByteSource) -> Structure:
    """Read and check the header.

    Raises:
        MalformedError: The header is cut (FIL104) or cannot be right (FIL107).
    """
    length, header = _read_header(source)
    data_start = 8 + length
    tensors: list[FileTensor] = []
    damages: list[Damage] = []
    for name, entry in header.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
                damages.append(_header_damage("its metadata is no table of texts", length))
            continue
        tensor = _read_entry(name, entry, data_start)
        if isinstance(tensor, str):
            damages.append(_header_damage(f"tensor {name}: {tensor}", length, tensor=name))
        else:
            tensors.append(tensor)
    tensors.sort(key=lambda tensor: (tensor.start, tensor.byte_ranges, tensor.name))
    if not damages:
        damages += _check_tiling(source, tensors, data_start)
    notes = () if isinstance(header.get("__metadata__"), dict) else ("no metadata",)
    return Structure(
        format=FileFormat.SAFETENSORS,
        tensors=tuple(tensors),
        damages=tuple(damages[:_MAX_DAMAGES]),
        notes=notes,
    )


def _read_header(source: ByteSource) -> tuple[int, dict[str, Any]]:
    if source.size < 8:
        raise malformed(
            f"has {source.size} bytes, less than the length of a header",
            rule="FIL104",
            evidence={"size_bytes": source.size, "expected_bytes": 8},
        )
    length = int.from_bytes(source.read(0, 8), "little")
    if length > MAX_HEADER_BYTES:
        raise malformed(
            f"gives a header length of {length} bytes; the format allows {MAX_HEADER_BYTES}",
            byte_range=(0, 8),
        )
    if 8 + length > source.size:
        message = f"ends within its header: {source.size} bytes of at least {8 + length}"
        promised_by = "the header length in its first 8 bytes"
        raise MalformedError(cut_short(message, source.size, 8 + length, promised_by))
    raw = source.read(8, length)
    place = (8, 8 + length)
    if raw[:1] != b"{":
        raise malformed("its header does not start with a brace", byte_range=(8, 9))
    if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS or raw.count(b",") > _MAX_COMMAS:
        raise TooLargeError(malformed("its header has more entries than this release reads").damage)
    try:
        header = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique_object, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        at = 8 + error.start
        raise malformed("its header is not UTF-8", byte_range=(at, at + 1)) from None
    except json.JSONDecodeError as error:
        at = 8 + len(error.doc[: error.pos].encode())
        raise malformed(
            f"its header is not JSON: {error.msg} at byte {at}",
            byte_range=(min(at, 7 + length), min(at + 1, 8 + length)),
        ) from None
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, _DuplicateError) else "nesting or a number"
        raise malformed(f"its header cannot be right: {what}", byte_range=place) from None
    if not isinstance(header, dict):
        raise malformed("its header is no table", byte_range=place)
    return length, header


def _read_entry(name: str, entry: Any, data_start: int) -> FileTensor | str:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        return "its entry has other keys than dtype, shape and data_offsets"
    known = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if known is None:
        return f"dtype {str(entry['dtype'])[:40]!r} is not known to this release"
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape):
        return "its shape is no list of sizes"
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return "its data_offsets are no range"
    problem = shape_problem(tuple(shape))
    if problem:
        return f"it has {problem}"
    dtype, bits, packed = known
    count = 1
    for size in shape:
        count *= size
    if count * bits % 8 or (packed > 1 and (not shape or shape[-1] % packed)):
        return f"{count} elements of {bits} bits fill no whole bytes"
    if offsets[1] - offsets[0] != count * bits // 8:
        return (
            f"{entry['dtype']} of shape {shape} takes {count * bits // 8} bytes, its range has "
            f"{offsets[1] - offsets[0]}"
        )
    if packed > 1:
        shape = [*shape[:-1], shape[-1] // packed]
    start, end = data_start + offsets[0], data_start + offsets[1]
    return FileTensor(
        name=name,
        dtype=dtype,
        shape=tuple(shape),
        stride=row_major(tuple(shape)),
        byte_ranges=((start, end),) if end > start else (),
        start=start,
    )


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 1 << 63 for value in values
    )


def _check_tiling(source: ByteSource, tensors: list[FileTensor], data_start: int) -> list[Damage]:
    damages = []
    reach, owner = data_start, "the header"
    for tensor in tensors:
        for start, end in tensor.byte_ranges:
            if start != reach:
                word = "overlap" if start < reach else "leave a hole"
                damages.append(
                    Damage(
                        rule="FIL107",
                        message=f"{owner} and tensor {tensor.name} {word}",
                        where=Location(
                            tensor=tensor.name, byte_range=(min(start, reach), max(start, reach))
                        ),
                    )
                )
            reach, owner = max(reach, end), f"tensor {tensor.name}"
    if reach > source.size:
        whole = [t.name for t in tensors if all(end <= source.size for _, end in t.byte_ranges)]
        damages = [
            cut_short(
                f"ends after {source.size} of {reach} bytes; "
                f"{len(whole)} of {len(tensors)} tensors lie wholly before the cut",
                source.size,
                reach,
                "the header",
                readable=whole,
            )
        ]
    elif reach < source.size and not damages:
        damages.append(
            Damage(
                rule="FIL107",
                message=f"{source.size - reach} bytes follow its last tensor",
                where=Location(byte_range=(reach, source.size)),
            )
        )
    return damages


def _header_damage(message: str, length: int, tensor: str | None = None) -> Damage:
    where = Location(tensor=tensor, byte_range=(8, 8 + length))
    return Damage(rule="FIL107", message=message, where=where)
