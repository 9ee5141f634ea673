"""Damage, or a file that somebody wrote anew on purpose: the latter is never rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.tree import LEAF_BYTES
from everybit.files.damage import MalformedError
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_status
from everybit.files.zips.members import member_crc, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.repair.mending import Mend
    from everybit.files.seals.manifest import SealedFile

#: Training changes more than one byte in so many.
_FEW: Final = 50
_WRITTEN_ANEW: Final = (
    "most of it differs from what was sealed, and by its own format it is whole: it was written "
    "anew; seal it again, or move it away to get the sealed one back"
)


def ends_within_tensor(sealed: SealedFile, bad: list[int]) -> bool:
    """Return whether what differs is one run of leaves that begins or ends inside a tensor.

    Who writes a model anew writes its tensors whole; a lost or overwritten stretch of the disk
    heeds no tensor.

    Args:
        sealed: The file's entry in the manifest.
        bad: The leaves that differ, in order.
    """
    first, after = bad[0], bad[-1] + 1
    if after - first != len(bad):
        return False
    # A bad leaf wholly in one tensor, and a whole one beside it that holds bytes of the same.
    low, high = first * LEAF_BYTES, after * LEAF_BYTES
    return any(
        (start < low and low + LEAF_BYTES <= end) or (start <= high - LEAF_BYTES and high < end)
        for tensor in sealed.tensors
        for start, end in tensor.byte_ranges
    )


def few_bytes_differ(mends: list[Mend], num_leaves: int) -> bool:
    """Return whether so few bytes of many leaves differ that nobody wrote them anew.

    Args:
        mends: What would be put back.
        num_leaves: How many leaves differ.
    """
    changed = sum(mend.num_bytes or mend.end - mend.start for mend in mends)
    return bool(mends) and changed * _FEW < num_leaves * LEAF_BYTES


def why_not_damage(path: Path) -> str:
    """Return why a file that differs in most places is not put back, or "".

    A model that is whole by its own format was most likely trained on and saved again; putting
    back what was sealed would lose it.

    Raises:
        PathError: It cannot be read.
    """
    with ByteSource(path) as source:
        structure = read_structure(source)
        if structure.damages or not structure.tensors:
            return ""
        if not structure.has_checksums:
            return _WRITTEN_ANEW
        for member in structure.members:
            if not member.usable or unreadable(member):
                continue
            try:
                if crc_status(member, member_crc(source, member)) is not None:
                    return ""
            except MalformedError:
                return ""
    return _WRITTEN_ANEW
