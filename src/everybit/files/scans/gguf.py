"""GGUF: key-value pairs and tensors; the one thing in it that is ever run is a chat template."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource

_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_MAX_PAIRS: Final = 100_000
_MAX_ITEMS: Final = 20_000_000
_MAX_KEY_BYTES: Final = 64 * 1024
_MAX_TEMPLATE_BYTES: Final = 4 * 1024 * 1024
_BUFFER_BYTES: Final = 256 * 1024


class _GgufError(Exception):
    """The header cannot be right."""


class _Reader:
    """Numbers and strings from a buffer that moves along."""

    def __init__(self, source: ByteSource, at: int, wide: bool) -> None:
        self._source = source
        self._base = at
        self._data = b""
        self.at = at
        self.wide = wide
        self.big_endian = False

    def take(self, length: int) -> bytes:
        if self.at + length > self._source.size:
            raise _GgufError("its header reaches beyond the file")
        place = self.at - self._base
        if place + length > len(self._data):
            self._base, place = self.at, 0
            self._data = self._source.read(self.at, max(length, _BUFFER_BYTES))
        self.at += length
        return self._data[place : place + length]

    def skip(self, length: int) -> None:
        if self.at + length > self._source.size:
            raise _GgufError("its header reaches beyond the file")
        self.at += length
        if not 0 <= self.at - self._base <= len(self._data):
            self._base, self._data = self.at, b""

    def number(self, code: str) -> int:
        layout = struct.Struct((">" if self.big_endian else "<") + code)
        return int(layout.unpack(self.take(layout.size))[0])

    def length(self) -> int:
        return self.number("Q" if self.wide else "I")

    def text(self, most: int) -> str:
        length = self.length()
        if length > most:
            raise _GgufError(f"it has a text of {length} bytes")
        return self.take(length).decode("utf-8", "replace")


def look_into_gguf(content: Content, walk: Walk) -> None:
    """Read the header's pairs, and judge the chat templates among them."""
    walk.outcome.count("headers")
    try:
        templates = _read_templates(content.source)
    except _GgufError as error:
        walk.tell(content, f"its header cannot be right: {error}", rule_id="FIL107")
        return
    if not templates:
        return
    from everybit.files.scans.templates import tell_template

    for key, text in templates:
        tell_template(content, walk, text, key)


def _read_templates(source: ByteSource) -> list[tuple[str, str]]:
    version = source.read(4, 4)
    reader = _Reader(source, 8, wide=True)
    reader.big_endian = version[:2] == b"\0\0" and version != b"\0\0\0\0"
    number = int.from_bytes(version, "big" if reader.big_endian else "little")
    if not 1 <= number <= 3:
        raise _GgufError(f"it is of version {number}, which is not known")
    reader.wide = number > 1
    reader.length()  # number of tensors
    count = reader.length()
    if count > _MAX_PAIRS:
        raise _GgufError(f"it announces {count} pairs")
    found = []
    for _ in range(count):
        key = reader.text(_MAX_KEY_BYTES)
        kind = reader.number("I")
        if kind == _STRING and "chat_template" in key:
            found.append((key, reader.text(_MAX_TEMPLATE_BYTES)))
        else:
            _skip(reader, kind, 0)
    return found


def _skip(reader: _Reader, kind: int, depth: int) -> None:
    if kind in _SIZES:
        reader.skip(_SIZES[kind])
    elif kind == _STRING:
        reader.skip(reader.length())
    elif kind == _ARRAY and depth < 4:
        inner = reader.number("I")
        count = reader.length()
        if count > _MAX_ITEMS:
            raise _GgufError(f"it announces an array of {count} items")
        if inner in _SIZES:
            reader.skip(_SIZES[inner] * count)
            return
        for _ in range(count):
            _skip(reader, inner, depth + 1)
    else:
        raise _GgufError(f"it has a value of type {kind}, which is not known")
