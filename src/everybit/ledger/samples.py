"""Payloads of delivered batches: a fixed head, the loader's name, packed keys, digest words.

A payload::

    0   8  digest of the batch        8  8  word of the random streams
    16  8  step, signed              24  4  epoch           28  4  number in the epoch
    32  4  number of samples         36  2  worker, signed  38  1  flags  39  1  bytes of the name
    40     the loader's name in UTF-8, the keys, the digests (8 bytes each)

Flags: bit 0, there are keys; bit 1, a hash stands for each key; bit 2, there is a digest for each
sample. Keys are packed: their lowest (8 bytes, signed), the bytes of a key (1, 2, 4 or 8), and then
of each key how far it is above the lowest. A shuffled batch of a data set of 60,000 samples thus
takes two bytes a sample, a sequential one a byte.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.core.samples import SampleRecord
from everybit.ledger.payload import PayloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD: Final = struct.Struct("<QQqIIIhBB")
_KEYS: Final = struct.Struct("<qB")
_HAS_KEYS: Final = 1
_HASHED: Final = 2
_HAS_DIGESTS: Final = 4
_LETTERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MAX_NAME_BYTES: Final = 255
_WORD: Final = (1 << 64) - 1
_MAX_COUNT: Final = (1 << 32) - 1


def encode_samples(record: SampleRecord) -> bytes:
    """Return the payload of one delivered batch."""
    name = record.loader.encode("utf-8", "surrogatepass")[:_MAX_NAME_BYTES]
    keys = record.indices
    digests = record.sample_digests
    flags = 0
    parts = [b"", name]
    if keys is not None:
        flags |= _HAS_KEYS | _HASHED * record.hashed
        parts.append(_packed(keys))
    if digests and (keys is None or len(digests) == len(keys)):
        flags |= _HAS_DIGESTS
        parts.append(struct.pack(f"<{len(digests)}Q", *digests))
    count = len(digests) if keys is None else len(keys)
    parts[0] = _HEAD.pack(
        record.batch_digest & _WORD,
        record.worker_rng & _WORD,
        record.step,
        min(record.epoch, _MAX_COUNT),
        min(record.batch, _MAX_COUNT),
        count,
        record.worker,
        flags,
        len(name),
    )
    return b"".join(parts)


def _packed(keys: Sequence[int]) -> bytes:
    lowest = min(keys) if keys else 0
    above = max(keys) - lowest if keys else 0
    size = 2 if above < 1 << 16 else 4 if above < 1 << 32 else 8
    size = 1 if above < 1 << 8 else size
    offsets = [key - lowest for key in keys] if lowest else keys
    return _KEYS.pack(lowest, size) + struct.pack(f"<{len(keys)}{_LETTERS[size]}", *offsets)


def decode_samples(payload: memoryview, rank: int = 0) -> SampleRecord:
    """Read a delivered batch back.

    Args:
        payload: The payload.
        rank: Rank of the log it is in.

    Raises:
        PayloadError: It is none.
    """
    try:
        digest, rng, step, epoch, batch, count, worker, flags, size = _HEAD.unpack_from(payload)
        at = _HEAD.size + size
        name = bytes(payload[_HEAD.size : at]).decode("utf-8", "surrogatepass")
        keys: tuple[int, ...] | None = None
        if flags & _HAS_KEYS:
            lowest, width = _KEYS.unpack_from(payload, at)
            at += _KEYS.size
            offsets = struct.unpack_from(f"<{count}{_LETTERS[width]}", payload, at)
            keys = tuple(lowest + offset for offset in offsets) if lowest else offsets
            at += count * width
        digests: tuple[int, ...] = ()
        if flags & _HAS_DIGESTS:
            digests = struct.unpack_from(f"<{count}Q", payload, at)
            at += 8 * count
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise PayloadError(f"is no delivered batch ({error})") from error
    if at != len(payload):
        raise PayloadError("has parts that do not fill it")
    return SampleRecord(
        loader=name,
        epoch=epoch,
        batch=batch,
        step=step,
        worker=worker,
        rank=rank,
        indices=keys,
        hashed=bool(flags & _HASHED),
        sample_digests=digests,
        batch_digest=digest,
        worker_rng=rng,
    )


def read_samples(payload: memoryview, _flags: int) -> SampleRecord:
    """Read it as the index does, which asks only whether it can be read."""
    return decode_samples(payload)
