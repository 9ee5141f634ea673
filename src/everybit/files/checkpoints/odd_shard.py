"""A shard of another save among its fellows: dtypes, shapes or save ids that only it has.

The layers of a model repeat, so tensors of the same place in different layers have one dtype and
one shape. A shard in which all of them depart from what every other shard has was not written
together with these. Single tensors may depart: some layers are kept in a wider dtype, or are
narrower, on purpose.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.checkpoints.contents import Contents

_DIGITS: Final = re.compile(r"(?<=\.)\d+(?=\.)")
_MAX_HEADER_BYTES: Final = 100_000_000
#: Keys of a safetensors header's metadata that tell one save from another.
_SAVE_KEYS: Final = ("step", "global_step", "iteration", "epoch", "save_id", "total_steps")
_MIN_KINDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OddShard:
    """A shard that departs from all others, and in what."""

    shard: str
    message: str
    tensor: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


def find_odd_shards(shards: Mapping[str, Contents]) -> list[OddShard]:
    """Return the shards that were not written together with the others.

    Args:
        shards: Whole shards of one index, by name.
    """
    if len(shards) < 2:
        return []
    return _by_metadata(shards) or _by_layers(shards)


def _by_layers(shards: Mapping[str, Contents]) -> list[OddShard]:
    forms: dict[str, dict[str, set[tuple[str, tuple[int, ...]]]]] = defaultdict(dict)
    example: dict[tuple[str, str], str] = {}
    for shard, contents in shards.items():
        for tensor in contents.tensors:
            kind = _DIGITS.sub("#", tensor.name)
            if kind == tensor.name:
                continue
            forms[kind].setdefault(shard, set()).add((tensor.dtype, tensor.shape))
            example.setdefault((kind, shard), tensor.name)
    odd = []
    for shard in shards:
        compared, departs = 0, []
        for kind, by_shard in forms.items():
            if shard not in by_shard or len(by_shard) < 2:
                continue
            others = set().union(*(found for s, found in by_shard.items() if s != shard))
            # Where the others do not agree among themselves, nothing departs from them.
            if len(others) > 1:
                continue
            compared += 1
            if not by_shard[shard] & others:
                departs.append((kind, next(iter(by_shard[shard])), next(iter(others))))
        if compared < _MIN_KINDS or len(departs) < compared:
            continue
        kind, (dtype, shape), (usual_dtype, usual_shape) = departs[0]
        name = example[kind, shard]
        odd.append(
            OddShard(
                shard=shard,
                message=f"{name} has {dtype} {list(shape)}, the same tensor of other layers "
                f"{usual_dtype} {list(usual_shape)} in every other shard",
                tensor=name,
                evidence={"num_compared": compared, "num_different": len(departs)},
            )
        )
    # Of two that differ neither is the odd one by itself: the smaller part is.
    if len(odd) == len(shards):
        counts = {item.shard: len(shards[item.shard].tensors) for item in odd}
        smallest = min(counts, key=lambda shard: (counts[shard], shard))
        odd = [item for item in odd if item.shard == smallest]
    return odd


def _by_metadata(shards: Mapping[str, Contents]) -> list[OddShard]:
    said: dict[str, dict[str, str]] = {}
    for shard, contents in shards.items():
        if contents.format is FileFormat.SAFETENSORS:
            said[shard] = _metadata(contents)
    for key in _SAVE_KEYS:
        values = {shard: found[key] for shard, found in said.items() if key in found}
        if len(values) < 2 or len(set(values.values())) < 2:
            continue
        usual, number = Counter(values.values()).most_common(1)[0]
        if number * 2 <= len(values) and len(values) > 2:
            continue
        return [
            OddShard(
                shard=shard,
                message=f"its header says {key} {value[:40]}, the others {usual[:40]}",
                evidence={"metadata_key": key, "value": value[:80], "usual": usual[:80]},
            )
            for shard, value in values.items()
            if value != usual
        ]
    return []


def _metadata(contents: Contents) -> dict[str, str]:
    try:
        with ByteSource(contents.path) as source:
            length = int.from_bytes(source.read(0, 8), "little")
            if length > _MAX_HEADER_BYTES:
                return {}
            found = json.loads(source.read(8, length)).get("__metadata__", {})
    except (PathError, ValueError, AttributeError, RecursionError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
