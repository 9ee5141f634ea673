"""What is wrong with a file's bytes, before it is a finding: the rule, the place, the facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import DamagedError
from everybit.core.finding import Location
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding


_VERBS: Final = frozenset({"has", "ends", "gives"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that cannot be right in a file.

    Attributes:
        rule: Id of the rule that says so.
        message: One sentence; the path is put before it when it becomes a finding.
        where: The place in the file; `path` is set when it becomes a finding.
        evidence: JSON-ready facts.
        from_pickle: A claim of the archive's pickle record stands behind it, so that it is moot
            where that record is itself damaged.
    """

    rule: str
    message: str
    where: Location = field(default_factory=Location)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    from_pickle: bool = False

    def finding(self, path: str) -> Finding:
        """Return the finding about the file at `path` (relative to the verb's target)."""
        # A message is a clause about the file, or names its own subject.
        joint = " " if self.message.split(" ", 1)[0] in _VERBS else ": "
        return rule(self.rule).finding(
            f"{path}{joint}{self.message}",
            where=replace(self.where, path=path),
            evidence=self.evidence,
        )

    def error(self, path: object) -> DamagedError:
        """Return the error for verbs that need a whole file."""
        return DamagedError(self.message, rule=self.rule, where=str(path))


def cut_short(
    message: str,
    size: int,
    wanted: int,
    promised_by: str,
    *,
    readable: Sequence[str] = (),
    num_lost: int | None = None,
) -> Damage:
    """Return the damage of a file that ends before it should (FIL104).

    Args:
        message: What cannot be right.
        size: Size of the file in bytes.
        wanted: The size that it should have at least, in bytes.
        promised_by: What says so.
        readable: Names of the tensors that lie wholly before the cut.
        num_lost: How many others there are, where that is known.
    """
    evidence: dict[str, Any] = {
        "size_bytes": size,
        "expected_bytes": wanted,
        "promised_by": promised_by,
        "readable": list(readable),
    }
    if num_lost is not None:
        evidence["num_lost"] = num_lost
    where = Location(byte_range=(size, wanted))
    return Damage(rule="FIL104", message=message, where=where, evidence=evidence)


class MalformedError(DamagedError):
    """Reading cannot go on: the bytes contradict the format. Carries its `Damage`."""

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        super().__init__(damage.message, rule=damage.rule)


class TooLargeError(MalformedError):
    """Reading was given up at a bound of this release; nothing is said about damage."""


def malformed(message: str, *, rule: str = "FIL107", **place: Any) -> MalformedError:
    """Return the error for bytes that contradict their format.

    Args:
        message: What cannot be right.
        rule: The rule; `evidence` in `place` becomes the facts, all else the `Location`.
        place: `Location` keys.
    """
    evidence = place.pop("evidence", {})
    return MalformedError(
        Damage(rule=rule, message=message, where=Location(**place), evidence=evidence)
    )
