"""One tensor that is not the same on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.diff.classes import DifferenceClass
    from everybit.diff.measure import Measured
    from everybit.diff.stored import StoredTensor


@dataclass(slots=True, kw_only=True, eq=False)
class Difference:
    """One tensor that is not the same on both sides, and its class.

    Attributes:
        name: Its name, A's where both have one.
        a: A's tensor.
        b: B's tensor.
        found: Its class.
        why: What the class stands on, one clause.
        measured: Sizes, where values were compared.
        evidence: JSON-ready facts of the class.
        elements: The elements meant, where these are not all that differ.
        maybe_rounded: Facts of a round trip that the values bear out and are too few to prove.
        file_range: File bytes `[start, end)` in B that differ, where that is known.
    """

    name: str
    a: StoredTensor | None
    b: StoredTensor | None
    found: DifferenceClass
    why: str = ""
    measured: Measured | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    elements: tuple[int, ...] = ()
    file_range: tuple[int, int] | None = None
    maybe_rounded: dict[str, Any] | None = None

    @property
    def tensor(self) -> StoredTensor:
        """The tensor, A's where both have one."""
        found = self.a or self.b
        assert found is not None
        return found
