"""Pickles in the strings of JSON files, in Base64, as agents and pipelines keep their objects."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from everybit.files.pickles.stream import read_pickles
from everybit.files.scans.held import Held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

#: What a file has in it that may hold one: the first letters of the protocols from 2 on, and
#: the key under which Stable-Baselines3 keeps what it hands to cloudpickle.
MARKS: Final = (b'"gA', b":serialized:")
_SERIALIZED: Final = ":serialized:"
_PICKLED: Final = re.compile(rb"\"(gA[I-X](?:[A-Za-z0-9+/]|\\n)+={0,2}(?:\\n)?)\"")
_MAX_PICKLES: Final = 1000
#: Shorter letters that only look like a pickle are a word.
_SHORT_BYTES: Final = 48
_MAX_STRINGS: Final = 2_000_000
_MAX_SHOWN: Final = 40


def look_into_strings(content: Content, walk: Walk, data: bytes) -> None:
    """Judge the pickles of the protocols from 2 on, which their first letters show."""
    for index, match in enumerate(_PICKLED.finditer(data)):
        if index >= _MAX_PICKLES:
            _tell_too_many(content, walk)
            return
        raw = _decoded(match[1].replace(b"\\n", b""))
        if raw is not None and (read_pickles(raw).whole or len(raw) >= _SHORT_BYTES):
            _look_into(content, walk, raw, f"string at {match.start() + 1}", loaded=False)


def look_into_spelled(content: Content, walk: Walk, value: Any, data: bytes) -> None:
    """Judge those that the file's bytes do not show: of the old protocols, or written in escapes.

    Args:
        content: The file.
        walk: The walk that it is met on.
        value: What the file holds, parsed.
        data: Its bytes.
    """
    count = 0
    for key, text in _strings(value):
        loaded = key == _SERIALIZED
        if text.startswith("gA") and f'"{text[:64]}'.encode("utf-8", "replace") in data:
            continue  # `look_into_strings` has seen it
        if not loaded and not _PICKLED.fullmatch(f'"{text}"'.encode("utf-8", "replace")):
            continue
        count += 1
        if count > _MAX_PICKLES:
            _tell_too_many(content, walk)
            return
        raw = _decoded(text.encode("utf-8", "replace"))
        if raw and (loaded or read_pickles(raw).whole):
            _look_into(content, walk, raw, f"string of {key[:_MAX_SHOWN]!r}", loaded=loaded)


def _strings(value: Any) -> Iterator[tuple[str, str]]:
    """Yield every string of a parsed file, with the key that it stands under."""
    waiting: list[tuple[str, Any]] = [("", value)]
    seen = 0
    while waiting and seen < _MAX_STRINGS:
        key, node = waiting.pop()
        seen += 1
        if isinstance(node, str):
            yield key, node
        elif isinstance(node, dict):
            waiting.extend((str(name), item) for name, item in node.items())
        elif isinstance(node, list):
            waiting.extend((key, item) for item in node)


def _decoded(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text)
    except ValueError:
        return None


def _tell_too_many(content: Content, walk: Walk) -> None:
    walk.closed(content, f"it holds more than {_MAX_PICKLES} pickles in its strings")


def _look_into(content: Content, walk: Walk, raw: bytes, name: str, *, loaded: bool) -> None:
    inner = content.but(
        source=Held(content.source.path, [raw]),
        member=content.inside(name),
        start=None,
        depth=content.depth + 1,
        by_law=loaded,
    )
    walk.look(inner, walk)
