"""What speaks for and against one flipped bit that a checksum alone points at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.files.damage import MalformedError
from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.torch_objects import find_tensors
from everybit.files.repair.plausible import element_standing, zero_pages
from everybit.files.zips.members import read_member

if TYPE_CHECKING:
    from everybit.files.repair.neighbours import Neighbours
    from everybit.files.repair.plausible import Standing
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

#: A repair by mistake has to be less likely than this where larger damage is given.
MAX_CHANCE: Final = 1e-5
#: More failing members than this are no single flips.
_MAX_FAILING: Final = 4
_MAX_PICKLE_BYTES: Final = 64 << 20


@dataclass(slots=True, kw_only=True)
class Testimony:
    """What the witnesses say.

    Attributes:
        chance: Probability that larger damage of the member looks just like this.
        witnesses: What speaks for the flip, for people.
        against: What speaks against it.
    """

    chance: float
    witnesses: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)

    @property
    def certainty(self) -> Certainty:
        """Strong where a witness leaves next to no chance, and nothing speaks against it."""
        strong = self.chance <= MAX_CHANCE and not self.against
        return Certainty.STRONG if strong else Certainty.WEAK

    def hear(self, one: Standing) -> None:
        """Take in how usual the element is, as found and as mended."""
        if one.stands_out:
            self.chance *= max(one.found, 1e-9)
            self.witnesses.append(
                f"the element stands out against {one.reference} (among the most unusual "
                f"{100 * one.found:.2g} %), put right it does not ({100 * one.mended:.2g} %)"
            )
        elif one.speaks_against:
            self.against.append(
                f"against {one.reference} the element is usual as it is, and would not be"
            )


def hear_witnesses(
    source: ByteSource,
    structure: Structure,
    member: Member,
    flip: tuple[int, int],
    *,
    num_failing: int,
    neighbours: Neighbours,
) -> Testimony:
    """Ask all witnesses about the one flipped bit that explains a member's checksum.

    Args:
        source: The damaged file.
        structure: Its structure.
        member: The member that fails.
        flip: Byte of the member and bit of the byte.
        num_failing: How many members fail.
        neighbours: Other saves of the same model.

    Raises:
        PathError: The file cannot be read.
    """
    told = Testimony(chance=8 * member.size / 2**32)
    if told.chance <= MAX_CHANCE:
        told.witnesses.append(f"the member is small: {member.size} bytes")
    if num_failing > _MAX_FAILING:
        told.against.append(f"{num_failing} members fail")
    offset, mask = member.start + flip[0], 1 << flip[1]
    if member.name.endswith("/data.pkl"):
        _hear_pickle(source, structure, member, flip, told)
        return told
    pages = zero_pages(source, member.start, member.end)
    if pages:
        told.against.append(f"{pages} pages of the member are zeros")
    holding = [
        tensor
        for tensor in structure.tensors
        if any(start <= offset < end for start, end in tensor.byte_ranges)
    ]
    if not holding:
        return told
    one = element_standing(source, holding[0], offset, mask)
    if one is not None:
        told.hear(one)
    if told.certainty is not Certainty.STRONG:
        for other in neighbours.standings(source, holding[0], offset, mask):
            told.hear(other)
    return told


def _hear_pickle(
    source: ByteSource, structure: Structure, member: Member, flip: tuple[int, int], told: Testimony
) -> None:
    """The pickle record: put right it reads and places all tensors, and as it is it does not."""
    try:
        found = read_member(source, member, _MAX_PICKLE_BYTES)
    except MalformedError:
        return
    mended = bytearray(found)
    mended[flip[0]] ^= 1 << flip[1]
    sizes = {other.name: other.size for other in structure.members}
    root = member.name.removesuffix("data.pkl")
    now, then = _reading(found, root, sizes), _reading(bytes(mended), root, sizes)
    if then is None:
        told.against.append("put right, the pickle record still does not read")
    elif now is None:
        told.chance *= 1e-3
        told.witnesses.append("put right, the pickle record reads and places all tensors")
    elif now != then:
        gone, new = now - then, then - now
        rest = {part for name in now & then for part in name.split(".")}
        if _strange(gone, rest) and not _strange(new, rest):
            told.chance *= 1e-3
            told.witnesses.append("put right, the names of the tensors go together")


def _strange(names: frozenset[str], rest: set[str]) -> bool:
    parts = {part for name in names for part in name.split(".")}
    return any(part not in rest and not part.isdigit() for part in parts)


def _reading(data: bytes, root: str, sizes: dict[str, int]) -> frozenset[str] | None:
    """Return the tensors' names, dtypes and shapes; None where the record does not hold."""
    try:
        specs, _ = find_tensors(interpret(data))
    except MalformedError:
        return None
    names = set()
    for spec in specs:
        if any(size < 0 for size in spec.shape):
            return None
        if spec.storage is not None and spec.storage.num_bytes:
            there = sizes.get(f"{root}data/{spec.storage.key}")
            if there is not None and there != spec.storage.num_bytes:
                return None
            if there is None and spec.storage.location != "meta":
                return None
        names.add(f"{spec.name}.{spec.dtype}.{'x'.join(map(str, spec.shape))}")
    return frozenset(names)
