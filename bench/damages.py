"""What storage, copies and careless saves do to a checkpoint's files, at places drawn from a seed.

Each damage is a function `(laid, other, rng) -> {file: new bytes, or None where it is gone}`, or
None where the checkpoint has no such place; `other` is the same checkpoint of another step.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import tarfile
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from bench.places import Laid, Span

PAGE_BYTES: Final = 4096

Changed = dict[str, bytes | None]


def _flip(kind: str) -> Callable[[Laid, Laid, random.Random], Changed | None]:
    def flip(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
        places = [
            (f, span) for (f, k), spans in laid.regions.items() if k == kind for span in spans
        ]
        if not places:
            return None
        sizes = [end - start for _, (start, end) in places]
        file, (start, end) = rng.choices(places, sizes)[0]
        data = bytearray(laid.files[file])
        data[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
        return {file: bytes(data)}

    return flip


def _data_files(laid: Laid) -> list[str]:
    return sorted({file for file, _, _ in laid.tensors.values()})


def _pick_file(laid: Laid, rng: random.Random) -> str:
    """A file, by its size, so that every byte is as likely."""
    return rng.choices(list(laid.files), [len(data) for data in laid.files.values()])[0]


def _zero(data: bytes, start: int, end: int) -> bytes | None:
    if not data[start:end].strip(b"\0"):
        return None
    return data[:start] + bytes(end - start) + data[end:]


def zero_page(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """A page of a file that reads as zeros: a write that was lost."""
    file = _pick_file(laid, rng)
    data = laid.files[file]
    pages = len(data) // PAGE_BYTES
    if not pages:
        return None
    start = PAGE_BYTES * rng.randrange(pages)
    new = _zero(data, start, start + PAGE_BYTES)
    return None if new is None else {file: new}


def hole(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """Several pages of zeros, or all to the end, in a file of the right size."""
    file = _pick_file(laid, rng)
    data = laid.files[file]
    pages = len(data) // PAGE_BYTES
    if pages < 2:
        return None
    first = rng.randrange(pages)
    end = PAGE_BYTES * (first + rng.randint(2, 12))
    if rng.random() < 0.5:
        end = len(data)
    new = _zero(data, PAGE_BYTES * first, min(end, len(data)))
    return None if new is None else {file: new}


def truncate(laid: Laid, _other: Laid, rng: random.Random) -> Changed:
    """A save or a copy that stopped."""
    file = _pick_file(laid, rng)
    return {file: laid.files[file][: rng.randrange(len(laid.files[file]))]}


def append(laid: Laid, _other: Laid, rng: random.Random) -> Changed:
    """Bytes that follow the end: random ones, zeros, or a second copy of the end."""
    file = _pick_file(laid, rng)
    data = laid.files[file]
    count = rng.randint(1, PAGE_BYTES)
    return {file: data + rng.choice((rng.randbytes(count), bytes(count), data[-count:]))}


def exchange(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """Two shards of one size under each other's names."""
    files = _data_files(laid)
    pairs = [
        (one, two)
        for at, one in enumerate(files)
        for two in files[at + 1 :]
        if len(laid.files[one]) == len(laid.files[two])
    ]
    if not pairs:
        return None
    one, two = rng.choice(pairs)
    return {one: laid.files[two], two: laid.files[one]}


def lose(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """A shard that is not there."""
    files = _data_files(laid)
    return {rng.choice(files): None} if len(files) > 1 else None


def make_stale(laid: Laid, other: Laid, rng: random.Random) -> Changed | None:
    """A shard of another step, of the same names and sizes."""
    files = [f for f in _data_files(laid) if len(other.files[f]) == len(laid.files[f])]
    if len(_data_files(laid)) < 2 or not files:
        return None
    file = rng.choice(files)
    return {file: other.files[file]}


# -- what only a writer's bug, or an attacker, makes -----------------------------------------------


def _with_header(data: bytes, entries: list[tuple[str, Any]]) -> bytes:
    text = "{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in entries) + "}"
    header = text.encode()
    header += b" " * (-len(header) % 8)
    body = data[8 + int.from_bytes(data[:8], "little") :]
    return len(header).to_bytes(8, "little") + header + body


def _header(data: bytes) -> list[tuple[str, Any]]:
    return list(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).items())


def duplicate_key(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """A name that stands twice: in a header, an index, an archive."""
    file = rng.choice(list(laid.files) if len(laid.files) > 1 else _data_files(laid))
    data = laid.files[file]
    if file.endswith(".safetensors"):
        entries = _header(data)
        again = rng.choice(entries)
        entries.insert(rng.randrange(len(entries) + 1), (again[0], rng.choice(entries)[1]))
        return {file: _with_header(data, entries)}
    if file.endswith(".index.json"):
        document = json.loads(data)
        name, shard = rng.choice(list(document["weight_map"].items()))
        shards = sorted(set(document["weight_map"].values()) - {shard})
        line = f'"weight_map": {{\n    {json.dumps(name)}: {json.dumps(rng.choice(shards))},'
        return {file: data.decode().replace('"weight_map": {', line, 1).encode()}
    buffer = io.BytesIO(data)
    if data[:4] == b"PK\x03\x04" and not file.endswith(".distcp"):
        with warnings.catch_warnings(), zipfile.ZipFile(buffer, "a") as archive:
            warnings.simplefilter("ignore")
            one = rng.choice(archive.namelist())
            archive.writestr(one, rng.randbytes(rng.randint(1, PAGE_BYTES)))
        return {file: buffer.getvalue()}
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=buffer, mode="a") as archive:
            again = rng.randbytes(rng.randint(1, PAGE_BYTES))
            entry = tarfile.TarInfo(rng.choice(archive.getnames()))
            entry.size = len(again)
            archive.addfile(entry, io.BytesIO(again))
        return {file: buffer.getvalue()}
    return None


def overlap(laid: Laid, _other: Laid, rng: random.Random) -> Changed | None:
    """Two tensors, members or entries that claim the same bytes."""
    if ".metadata" in laid.files:
        # everybit: ignore[SRC302] this script has written it a moment ago
        described = pickle.loads(laid.files[".metadata"])
        keys = list(described.storage_data)
        one, two = rng.sample(keys, 2)
        described.storage_data[one] = described.storage_data[two]
        return {".metadata": pickle.dumps(described)}
    file = rng.choice(_data_files(laid))
    data = laid.files[file]
    if file.endswith(".safetensors"):
        entries = _header(data)
        tensors = [key for key, value in entries if key != "__metadata__"]
        moved = rng.choice([key for key in tensors if dict(entries)[key]["data_offsets"][0]])
        changed = dict(entries)
        start, end = changed[moved]["data_offsets"]
        back = rng.randint(1, start)
        changed[moved] = {**changed[moved], "data_offsets": [start - back, end - back]}
        return {file: _with_header(data, list(changed.items()))}
    if data[:4] != b"PK\x03\x04":
        return None
    entries_at = _central_entries(data)
    one, two = rng.sample(entries_at, 2)
    new = bytearray(data)
    if rng.random() < 0.5:
        new[one + 42 : one + 46] = data[two + 42 : two + 46]
    else:
        more = rng.randint(1 << 8, 1 << 15)
        for at in (20, 24):
            size = struct.unpack_from("<I", data, one + at)[0]
            struct.pack_into("<I", new, one + at, size + more)
    return {file: bytes(new)}


def _central_entries(data: bytes) -> list[int]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        at = archive.start_dir
        found = []
        for _ in archive.infolist():
            found.append(at)
            at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    return found


KINDS: Final[dict[str, Callable[[Laid, Laid, random.Random], Changed | None]]] = {
    "bit flip in data": _flip("data"),
    "bit flip in header": _flip("header"),
    "bit flip in index": _flip("index"),
    "bit flip in pickle": _flip("pickle"),
    "zeroed page": zero_page,
    "truncation": truncate,
    "hole at the right size": hole,
    "appended bytes": append,
    "exchanged shards": exchange,
    "missing shard": lose,
    "stale shard": make_stale,
    "duplicate key": duplicate_key,
    "overlapping offsets": overlap,
}


def changed_spans(old: bytes, new: bytes) -> list[Span] | None:
    """Where a file's bytes differ, `[start, end)` of the old; None where it was laid out anew."""
    if len(new) < len(old) and old.startswith(new):
        return [(len(new), len(old))]
    if len(new) > len(old) and new.startswith(old):
        return [(len(old), len(new))]
    if len(new) != len(old):
        return None
    at = np.flatnonzero(np.frombuffer(old, "u1") != np.frombuffer(new, "u1"))
    if not len(at):
        return []
    breaks = np.flatnonzero(np.diff(at) > 1)
    starts = at[np.concatenate(([0], breaks + 1))]
    ends = at[np.concatenate((breaks, [len(at) - 1]))] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
