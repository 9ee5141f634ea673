"""Whether torch takes a file for a tar: it then refuses it, whatever is inside."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.files.tar import BLOCK_BYTES, is_tar_header
from everybit.files.weights_only.acceptance import Acceptance, Refusal

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_SIGNED: Final = struct.Struct("148b8x356b")


def read_as_tar(source: ByteSource) -> Acceptance | None:
    """Return torch's refusal of a tar; None for a file that is certainly none."""
    block = source.read(0, BLOCK_BYTES)
    if not _may_be_header(block):
        return None
    reason = "is a tar, the format before torch 0.1.11, which torch never reads with weights_only"
    return Acceptance(accepted=False, refusals=(Refusal(reason=reason),))


def _may_be_header(block: bytes) -> bool:
    """Return whether Python's `tarfile` may take a block for a header; rather too often."""
    if len(block) < BLOCK_BYTES:
        return False
    if is_tar_header(block) or not block.strip(b"\0"):
        return True
    field = block[148:156]
    wanted = 256 + sum(block[:148]) + sum(block[156:])
    signed = 256 + sum(_SIGNED.unpack(block))
    if field[:1] in (b"\x80", b"\xff"):
        found = int.from_bytes(field[1:], "big")
        return found in (wanted, signed) or field[:1] == b"\xff"
    try:
        return int(field.split(b"\0")[0].strip() or b"0", 8) in (wanted, signed)
    except ValueError:
        return False
