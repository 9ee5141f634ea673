"""Structure-aware damage for fuzzing: what a parser reads is changed, what guards it is put right.

A mutation of bytes alone mostly dies at the first length, checksum or digest. So lengths, offsets
and counts are set to values that parsers get wrong, pickles are changed opcode by opcode, JSON
value by value, and the checksums around them are made to hold again (of zip members, tar headers,
manifests), so that the next layer sees the damage too.
"""

from __future__ import annotations

import io
import json
import pickletools
import struct
import tarfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_NUMBERS: Final = (
    0, 1, 2, 7, 8, 127, 128, 255, 256, 4095, 4096, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1,
    2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_WIDTHS: Final = {"<B": 1, "<H": 2, "<I": 4, "<Q": 8, ">I": 4, ">Q": 8}
_OPCODES: Final = bytes(ord(op.code) for op in pickletools.opcodes)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes as disks, copies, bugs and attackers do, once or a few times."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(8)
        if kind <= 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2 and out:
            out[at] = rng.randrange(256)
        elif kind == 3:
            form = rng.choice(list(_WIDTHS))
            value = rng.choice(_NUMBERS) & (256 ** _WIDTHS[form] - 1)
            out[at : at + _WIDTHS[form]] = struct.pack(form, value)
        elif kind == 4:
            out[at : at + rng.randrange(1, 600)] = bytes(rng.randrange(1, 600))
        elif kind == 5:
            del out[at : at + rng.randrange(1, 900)]
        elif kind == 6:
            place = rng.randrange(len(out) + 1)
            out[place:place] = out[at : at + rng.randrange(1, 300)]
        else:
            del out[rng.randrange(len(out) + 1) :]
    return bytes(out)


# -- JSON ------------------------------------------------------------------------------------------


def _odd_value(rng: random.Random) -> Any:
    return rng.choice(
        (
            None, True, "", "a/../../b", "/etc/passwd", "\0", "x" * 3000, -1, 1.5, 1e308, [], {},
            [[[[[[]]]]]], {"a": {"b": {"c": {}}}}, rng.choice(_NUMBERS), -rng.choice(_NUMBERS),
            "F32", "BF16", "I64", [rng.choice(_NUMBERS) for _ in range(4)], [0] * 70, 10**40,
        )
    )  # fmt: skip


def mutate_json(value: Any, rng: random.Random) -> Any:
    """Change one value somewhere inside; the input stays as it was."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        changed = dict(value)
        kind = rng.randrange(8)
        if kind == 0:
            del changed[key]
        elif kind == 1:
            changed[rng.choice(("", "__metadata__", key + "x", "\ud800", "a\0b"))] = value[key]
        elif kind == 2:
            changed[key] = _odd_value(rng)
        else:
            changed[key] = mutate_json(value[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        kind = rng.randrange(6)
        if kind == 0:
            return value[:at] + value[at + 1 :]
        if kind == 1:
            return value[: at + 1] + value[at:]
        return [*value[:at], mutate_json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.7:
        return value + rng.choice((-1, 1, 4, -4, 4096, rng.choice(_NUMBERS)))
    return _odd_value(rng)


def mutate_text(data: bytes, rng: random.Random) -> bytes:
    """Change JSON text by value, or as bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    try:
        changed = json.dumps(mutate_json(json.loads(data), rng)).encode()
    except ValueError:
        return mutate_bytes(data, rng)
    if rng.random() < 0.1:
        # A key that stands twice.
        return changed.replace(b"{", b'{"a": 1, "a": 2, ', 1)
    return changed


def mutate_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Change the header by value with its length put right, or the bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    length = int.from_bytes(data[:8], "little")
    header = mutate_text(data[8 : 8 + length], rng)
    told = len(header) if rng.random() < 0.9 else rng.choice(_NUMBERS)
    return struct.pack("<Q", told) + header + data[8 + length :]


# -- pickles ---------------------------------------------------------------------------------------


def _operations(data: bytes) -> list[bytes]:
    ends = [at for _, _, at in pickletools.genops(data) if at is not None]
    return [data[start:end] for start, end in zip(ends, [*ends[1:], len(data)], strict=True)]


def mutate_pickle(data: bytes, rng: random.Random) -> bytes:
    """Change a pickle opcode by opcode, or an opcode's argument."""
    if rng.random() < 0.25:
        return mutate_bytes(data, rng)
    try:
        parts = _operations(data)
    except Exception:
        return mutate_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(parts))
        kind = rng.randrange(8)
        if kind == 0:
            del parts[at]
        elif kind == 1:
            parts.insert(at, parts[at])
        elif kind == 2:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 3:
            parts[at] = bytes([rng.choice(_OPCODES)]) + parts[at][1:]
        elif kind == 4:
            parts.insert(at, _odd_operation(rng))
        elif kind == 5:
            count = rng.choice((10, 300, 3000))
            parts.insert(at, rng.choice((b"(", b"]", b"}", b"2", b"\x85", b")", b"0")) * count)
        elif len(parts[at]) > 1:
            parts[at] = parts[at][:1] + mutate_bytes(parts[at][1:], rng)
        if not parts:
            return b""
    return b"".join(parts)


def _odd_operation(rng: random.Random) -> bytes:
    number = rng.choice(_NUMBERS)
    return rng.choice(
        (
            b"\x8a\x08" + struct.pack("<Q", number & (2**64 - 1)),
            b"\x8b" + struct.pack("<I", number & 0xFFFFFFFF),
            b"J" + struct.pack("<I", number & 0xFFFFFFFF),
            b"X" + struct.pack("<I", number & 0xFFFFFFFF),
            b"\x8d" + struct.pack("<Q", number),
            b"T" + struct.pack("<I", number & 0xFFFFFFFF),
            b"j" + struct.pack("<I", number & 0xFFFFFFFF),
            b"r" + struct.pack("<I", number & 0xFFFFFFFF),
            b"\x95" + struct.pack("<Q", number),
            b"I" + b"9" * rng.choice((3, 400, 5000)) + b"\n",
            b"L" + b"-9" * rng.choice((3, 400)) + b"L\n",
            b"F1e999\n",
            b"G" + struct.pack(">d", float("nan")),
            b"cos\nsystem\n",
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            b"Q",
            b"R",
            b"b",
            b"\x81",
            b"\x93",
            b".",
            b"\x80\x05",
        )
    )


# -- archives --------------------------------------------------------------------------------------


def mutate_zip(data: bytes, rng: random.Random) -> bytes:
    """Change a member with its checksum put right, a field of the directory, or the bytes."""
    kind = rng.random()
    if kind < 0.25:
        return mutate_bytes(data, rng)
    try:
        if kind < 0.6:
            return _mutate_member(data, rng)
        return _mutate_directory(data, rng)
    except (ValueError, zipfile.BadZipFile, struct.error, IndexError, OSError):
        return mutate_bytes(data, rng)


def _mutate_member(data: bytes, rng: random.Random) -> bytes:
    """Change a member in place: of its old length, so that all around it still holds."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        at = archive.start_dir
    # Pickles are where the parser is.
    pickles = [number for number, info in enumerate(entries) if info.filename.endswith(".pkl")]
    number = rng.choice(pickles) if pickles and rng.random() < 0.8 else rng.randrange(len(entries))
    info = entries[number]
    name_length, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + name_length + extra
    old = data[start : start + info.file_size]
    change = mutate_pickle if info.filename.endswith(".pkl") else mutate_npy
    # A pickle ends at its STOP, so that what is cut or follows does not matter.
    new = change(old, rng)[: len(old)].ljust(len(old), b"\0")
    out = bytearray(data)
    out[start : start + len(old)] = new
    for _ in range(number):
        at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    crc = struct.pack("<I", zlib.crc32(new))
    out[at + 16 : at + 20] = crc
    flags = struct.unpack_from("<H", data, info.header_offset + 6)[0]
    if flags & 8:
        after = start + len(old)
        after += 4 if data[after : after + 4] == b"PK\x07\x08" else 0
        out[after : after + 4] = crc
    else:
        out[info.header_offset + 14 : info.header_offset + 18] = crc
    return bytes(out)


def _mutate_directory(data: bytes, rng: random.Random) -> bytes:
    """Set fields of records to what parsers get wrong."""
    records = [
        (found, fields)
        for mark, fields in (
            (b"PK\x01\x02", ((8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"),
                             (30, "<H"), (32, "<H"), (34, "<H"), (42, "<I"))),
            (b"PK\x03\x04", ((6, "<H"), (8, "<H"), (14, "<I"), (18, "<I"), (22, "<I"), (26, "<H"),
                             (28, "<H"))),
            (b"PK\x05\x06", ((4, "<H"), (8, "<H"), (10, "<H"), (12, "<I"), (16, "<I"), (20, "<H"))),
            (b"PK\x06\x06", ((4, "<Q"), (24, "<Q"), (32, "<Q"), (40, "<Q"), (48, "<Q"))),
            (b"PK\x06\x07", ((4, "<I"), (8, "<Q"), (16, "<I"))),
        )
        for found in _all(data, mark)
    ]  # fmt: skip
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, fields = rng.choice(records)
        offset, form = rng.choice(fields)
        (old,) = struct.unpack_from(form, out, at + offset)
        number = rng.choice((old + 1, old - 1, old ^ 1 << rng.randrange(16), rng.choice(_NUMBERS)))
        struct.pack_into(form, out, at + offset, number % 256 ** _WIDTHS[form])
    return bytes(out)


def _all(data: bytes, mark: bytes) -> list[int]:
    found = []
    at = data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + 1)
    return found


def mutate_tar(data: bytes, rng: random.Random) -> bytes:
    """Change a part of the archive or a field of a header, its checksum put right."""
    kind = rng.random()
    if kind < 0.25:
        return mutate_bytes(data, rng)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        entries = archive.getmembers()
    entry = rng.choice(entries)
    out = bytearray(data)
    if kind < 0.7:
        start, end = entry.offset_data, entry.offset_data + entry.size
        out[start:end] = mutate_pickle(data[start:end], rng)[: end - start].ljust(
            end - start, b"\0"
        )
        return bytes(out)
    at = entry.offset
    field, length = rng.choice(((0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (257, 8)))
    odd = (
        b"77777777777\0",
        b"\x80" + b"\xff" * 11,
        b"\xff" * 12,
        b"storages\0",
        b"",
        b"-1\0",
        b"x",
    )
    new = rng.choice(odd)[:length]
    out[at + field : at + field + length] = new.ljust(length, b"\0")
    out[at + 148 : at + 156] = b" " * 8
    out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


def mutate_npy(data: bytes, rng: random.Random) -> bytes:
    """Change an array's header, its length put right, or the bytes."""
    if data[:6] != b"\x93NUMPY" or rng.random() < 0.3:
        return mutate_bytes(data, rng)
    length = struct.unpack_from("<H", data, 8)[0]
    header = data[10 : 10 + length].decode("latin1")
    odd = (
        ("'<f4'", "'|O'"), ("'<f4'", "'<f16'"), ("'<f4'", "'>f4'"), ("'<f4'", "[('a', '<f4')]"),
        ("'<f4'", "'<U9999999'"), ("'<f4'", "'|V0'"), ("False", "True"), ("False", "exit()"),
        ("(", "(" * rng.choice((2, 50, 150))), ("(", f"({rng.choice(_NUMBERS)}, "), ("(", "(-1, "),
        ("shape", "shape\\x00"), ("}", ", 'shape': (1,)}"), ("}", ""), ("(", "(1e9, "), ("{", "{{"),
        ("(", "(" + "1," * 70), ("4", "4" * rng.choice((2, 30, 5000))),
    )  # fmt: skip
    old, new = rng.choice(odd)
    text = header.replace(old, new, 1).encode("latin1")
    told = len(text) if rng.random() < 0.9 else rng.choice(_NUMBERS)
    return data[:8] + struct.pack("<H", told & 0xFFFF) + text + data[10 + length :]


def mutate_nested(data: bytes, rng: random.Random) -> bytes:
    """Change one of the archives that stand one after the other in a `.distcp` file."""
    starts = [
        at
        for at in _all(data, b"PK\x03\x04")
        if at == 0 or data[at - 22 : at - 18] == b"PK\x05\x06"
    ]
    if not starts or rng.random() < 0.2:
        return mutate_bytes(data, rng)
    number = rng.randrange(len(starts))
    start = starts[number]
    end = starts[number + 1] if number + 1 < len(starts) else len(data)
    return data[:start] + mutate_zip(data[start:end], rng) + data[end:]


def mutate_manifest(data: bytes, rng: random.Random) -> bytes:
    """Change the manifest by value and put its digest right, so that the values are read."""
    if rng.random() < 0.2:
        return mutate_bytes(data, rng)
    from everybit.core.tree import tree_digest

    body = json.loads(data)
    first = body.pop("digest")
    changed = mutate_json(body, rng)
    text = json.dumps(changed)[1:] + "\n"
    raw = ("\n" + text).encode() if rng.random() < 0.05 else text.encode()
    digest = tree_digest("bytes", (len(raw),), raw).hex
    if rng.random() < 0.02:
        digest = first.partition(":")[2]
    return b'{\n"digest": "tree:' + digest.encode() + b'",\n' + raw


MUTATIONS: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "bytes": mutate_bytes,
    "json": mutate_text,
    "safetensors": mutate_safetensors,
    "pickle": mutate_pickle,
    "zip": mutate_zip,
    "nested zips": mutate_nested,
    "tar": mutate_tar,
    "npy": mutate_npy,
    "manifest": mutate_manifest,
}
