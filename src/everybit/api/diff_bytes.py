"""Two files byte by byte, and what sets two small text files apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.api.diff_reader import Sources

_CHUNK_BYTES: Final = 1024 * 1024
#: Larger files are not parsed as JSON.
_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_MAX_KEYS: Final = 16
_MAX_TEXT: Final = 200


def first_difference(sources: Sources, a: Path, b: Path) -> int | None:
    """Return the offset of the first byte that differs, or None; a shorter file differs at its end.

    Raises:
        PathError: A file cannot be read.
    """
    one, other = sources.at(a), sources.at(b)
    common = min(one.size, other.size)
    left, right = bytearray(_CHUNK_BYTES), bytearray(_CHUNK_BYTES)
    views = memoryview(left), memoryview(right)
    for start in range(0, common, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES, common - start)
        counts = [
            source.read_into(start, view[:size])
            for source, view in zip((one, other), views, strict=True)
        ]
        sources.progress(sum(counts))
        if counts[0] == counts[1] == _CHUNK_BYTES and left == right:
            continue
        held = min(counts)
        x, y = bytes(views[0][:held]), bytes(views[1][:held])
        if x != y:
            return start + next(k for k in range(held) if x[k] != y[k])
        if counts[0] != counts[1] or held < size:
            return start + held
    return None if one.size == other.size else common


def same_json(sources: Sources, a: Path, b: Path) -> dict[str, Any] | None:
    """Return what sets two JSON files apart, or None where they are not both JSON.

    Returns:
        `num_differing` keys, and `changed`: the first of them with both values.
    """
    loaded = []
    for path in (a, b):
        source = sources.at(path)
        if source.size > _MAX_JSON_BYTES:
            return None
        try:
            loaded.append(_flat(json.loads(source.read(0, source.size))))
        except (ValueError, RecursionError):
            return None
    one, other = loaded
    differing = [
        key for key in dict.fromkeys((*one, *other)) if one.get(key, ...) != other.get(key, ...)
    ]
    changed = [
        {"key": key, "a": _shown(one, key), "b": _shown(other, key)}
        for key in differing[:_MAX_KEYS]
    ]
    return {"num_differing": len(differing), "changed": changed}


def _shown(values: dict[str, str], key: str) -> str | None:
    value = values.get(key)
    return None if value is None else value[:_MAX_TEXT]


def _flat(value: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        name, item = todo.pop()
        lead = f"{name}." if name else ""
        if isinstance(item, dict) and item:
            todo += [(f"{lead}{key}", inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list) and item:
            todo += [(f"{lead}{place}", inner) for place, inner in enumerate(item)]
        else:
            # Text forms: NaN is equal to itself, and 1 is not True.
            found[name] = json.dumps(item)
    return found
