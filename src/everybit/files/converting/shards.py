"""Which entries go into which safetensors file, and what the files are called."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.files.converting.storages import Entry

SUFFIX: Final = ".safetensors"
INDEX_SUFFIX: Final = ".safetensors.index.json"
_UNITS: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})")


@dataclass(slots=True, kw_only=True)
class Shard:
    """One safetensors file to write.

    Attributes:
        name: Its file name.
        entries: What is in it.
        num_bytes: Bytes of these.
    """

    name: str = ""
    entries: list[Entry] = field(default_factory=list)
    num_bytes: int = 0


def parse_size(text: str | int | None) -> int | None:
    """Return a size in bytes: "5GB" is 5 * 10^9, "5GiB" is 5 * 2^30; None for None.

    Raises:
        UsageError: It is no size above zero.

    >>> parse_size("1.5KB"), parse_size("2MiB"), parse_size(7)
    (1500, 2097152, 7)
    """
    if text is None:
        return None
    match = _SIZE.fullmatch(str(text).strip())
    unit = _UNITS.get(match.group(2).upper()) if match else None
    size = int(float(match.group(1)) * unit) if match and unit else 0
    if size <= 0:
        raise UsageError(
            f"{text!r} is no size", where="--max-shard-size", todo='write it as "5GB" or "512MiB"'
        )
    return size


def plan_shards(entries: Iterable[Entry], stem: str, max_bytes: int | None) -> list[Shard]:
    """Share entries out to files of at most `max_bytes`, in order; a larger one has its own."""
    shards = [Shard()]
    for entry in entries:
        last = shards[-1]
        if max_bytes is not None and last.entries and last.num_bytes + entry.num_bytes > max_bytes:
            last = Shard()
            shards.append(last)
        last.entries.append(entry)
        last.num_bytes += entry.num_bytes
    count = len(shards)
    for number, shard in enumerate(shards, 1):
        middle = f"-{number:05d}-of-{count:05d}" if count > 1 else ""
        shard.name = f"{stem}{middle}{SUFFIX}"
    return shards


def index_text(shards: list[Shard]) -> str:
    """Return the index of several files, in the form that Hugging Face libraries read."""
    index = {
        "metadata": {"total_size": sum(shard.num_bytes for shard in shards)},
        "weight_map": {entry.name: shard.name for shard in shards for entry in shard.entries},
    }
    return json.dumps(index, indent=2, ensure_ascii=False) + "\n"
