"""What a file's structure says: its tensors and members, and what in it cannot be right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.verdict import Skipped
    from everybit.files.damage import Damage
    from everybit.files.pickles.plain import Plain
    from everybit.files.tensor import FileFormat, FileTensor
    from everybit.files.zips.archive import Member


#: What is skipped where reading the tensors was given up as a whole.
TENSORS: Final = "its tensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The outcome of reading a format's structure, without reading the tensors.

    Attributes:
        format: What the content is.
        tensors: As described, in file order.
        damages: What cannot be right.
        members: Archive members, in the order of the central directory.
        has_checksums: The archive carries CRCs.
        skipped: Parts that this release does not read.
        notes: Remarks for people.
        order: Names of the tensors as the pickle lists them (a state dict's order); empty where
            the format keeps none.
        values: Plain values beside the tensors, by dotted key path.
        values_whole: These are all; False where there are too many, objects of other classes
            whose insides are not looked into, or a pickle that could not be read.
    """

    format: FileFormat
    tensors: tuple[FileTensor, ...] = ()
    damages: tuple[Damage, ...] = ()
    members: tuple[Member, ...] = ()
    has_checksums: bool = False
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    values: Mapping[str, Plain] = field(default_factory=dict)
    values_whole: bool = True

    @property
    def given_up(self) -> str:
        """Why its tensors were not read at all; empty where they were."""
        return next((item.why for item in self.skipped if item.what == TENSORS), "")
