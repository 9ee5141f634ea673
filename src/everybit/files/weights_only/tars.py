"""Whether torch takes a file for a tar: it then refuses it, whatever is inside."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.files.weights_only.acceptance import Acceptance, Refusal

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_BLOCK_BYTES: Final = 512
_SIGNED: Final = struct.Struct("148b8x356b")


def read_as_tar(source: ByteSource) -> Acceptance | None:
    """Return torch's refusal of a tar; None for a file that is certainly none."""
    block = source.read(0, _BLOCK_BYTES)
    if not _may_be_header(block):
        return None
    reason = "is a tar, the format before torch 0.1.11, which torch never reads with weights_only"
    return Acceptance(accepted=False, refusals=(Refusal(reason=reason),))


def _may_be_header(block: bytes) -> bool:
    """Return whether Python's `tarfile` may take a block for a header; rather too often."""
    if len(block) < _BLOCK_BYTES:
        return False
    if (block[257:262] == b"ustar" and block[0]) or not block.strip(b"\0"):
        return True
    field = block[148:156]
    wanted = 256 + sum(block[:148]) + sum(block[156:])
    signed = 256 + sum(_SIGNED.unpack(block))
    if field[:1] in (b"\x80", b"\xff"):
        found = int.from_bytes(field[1:], "big")
        return found in (wanted, signed) or field[:1] == b"\xff"
    # The digits end at the first zero; other readers take those behind leading zeros as well.
    if block[0] and _octal(field.strip(b" \0")) == wanted:
        return True
    return _octal(field.split(b"\0")[0].strip() or b"0") in (wanted, signed)


def _octal(digits: bytes) -> int:
    try:
        return int(digits, 8)
    except ValueError:
        return -1
