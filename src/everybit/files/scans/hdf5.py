"""HDF5: numbers, and in Keras's files a config in JSON, which is all of it that makes code run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

_CHUNK_BYTES: Final = 8 * 1024 * 1024
_OVERLAP_BYTES: Final = 256
#: A config is one attribute, contiguous in the file; it is not larger.
_MAX_CONFIG_BYTES: Final = 32 * 1024 * 1024
_MAX_CONFIGS: Final = 100
_CONFIG: Final = re.compile(
    rb"\{\s*\"(?:class_name|module|config|registered_name|name|build_config|backend)\"\s*:"
)
_LAMBDA: Final = re.compile(rb"\"class_name\"\s*:\s*\"(?:[\w>]*>)?Lambda\"")


def look_into_hdf5(content: Content, walk: Walk) -> None:
    """Find the configs in a file, and tell what in them makes Keras run code."""
    walk.outcome.count("HDF5 files")
    found = 0
    at, size = 0, content.source.size
    while at < size:
        data = content.source.read(at, _CHUNK_BYTES + _OVERLAP_BYTES)
        step = _CHUNK_BYTES
        match = _CONFIG.search(data) if b'"' in data else None
        while match is not None and found < _MAX_CONFIGS:
            found += 1
            length = _look_at(content, walk, at + match.start())
            end = match.start() + max(length, 1)
            if end >= len(data):
                step = max(step, end)
                break
            match = _CONFIG.search(data, end)
        at += step
    if found >= _MAX_CONFIGS:
        walk.closed(content, f"it holds more than {_MAX_CONFIGS} configs")


def _look_at(content: Content, walk: Walk, start: int) -> int:
    """Judge the config at an offset; return its length."""
    from everybit.files.scans.keras import tell_layers

    raw = content.source.read(start, _MAX_CONFIG_BYTES)
    text = raw.decode("utf-8", "replace")
    try:
        value, length = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        piece = raw[:_CHUNK_BYTES].split(b"\0", 1)[0]
        if _LAMBDA.search(piece):
            tell_layers(content, walk, _SOME_LAMBDA)
        return max(len(piece), 1)
    tell_layers(content, walk, value)
    return len(text[:length].encode("utf-8", "replace"))


_SOME_LAMBDA: Final[dict[str, Any]] = {
    "class_name": "Lambda",
    "config": {"name": "of a damaged config"},
}
