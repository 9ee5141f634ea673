"""JSON payloads: compact, strict JSON in ASCII, compressed where that pays; bounded when read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import json_number
from everybit.ledger.frame import MAX_PAYLOAD_BYTES, ZLIB

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Shorter texts are stored as they are.
_COMPRESS_FROM_BYTES: Final = 512
#: Deeper values are told as text: a value that holds itself must not stop the recording.
_MAX_DEPTH: Final = 64


class PayloadError(ValueError):
    """A frame whose checksum holds has a payload that cannot be read."""


def encode_json(value: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return the payload and the frame's flags for a JSON object.

    What strict JSON cannot hold becomes text: non-finite numbers (`"NaN"`), and any other object as
    `str` tells it.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False)
    raw = text.encode("ascii")
    if len(raw) >= _COMPRESS_FROM_BYTES:
        packed = zlib.compress(raw, 6)
        if len(packed) < len(raw):
            return packed, ZLIB
    return raw, 0


def decode_json(payload: bytes | memoryview, flags: int) -> dict[str, Any]:
    """Read a JSON object back.

    Raises:
        PayloadError: It is none, is too long unpacked, or has flags of a later format.
    """
    if flags & ~ZLIB:
        raise PayloadError(f"unknown flags {flags:#x}")
    try:
        raw = _unpack(payload) if flags & ZLIB else bytes(payload)
        value = json.loads(raw)
    except (ValueError, RecursionError, zlib.error) as error:
        raise PayloadError(f"not readable ({error})") from error
    if not isinstance(value, dict):
        raise PayloadError(f"holds a {type(value).__name__}, not an object")
    return value


def _unpack(payload: bytes | memoryview) -> bytes:
    engine = zlib.decompressobj()
    raw = engine.decompress(payload, MAX_PAYLOAD_BYTES)
    if not engine.eof or engine.unused_data:
        raise PayloadError("does not unpack to its end")
    return raw


def _plain(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return json_number(float(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(key): _plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            items: Iterable[Any] = value
            return [_plain(item, depth + 1) for item in items]
    return str(value)
