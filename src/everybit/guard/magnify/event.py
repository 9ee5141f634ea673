"""An operation of a step, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Event:
    """An operation, or the output of a module, with the bits that it reads and gives.

    Attributes:
        op: Name of the operation (`aten.addmm.default`); `module` for the output of a module.
        module: Qualified name of the module in whose call it lies, "" for the root or none.
        phase: `forward`, `backward`, `update`, or "" between the steps.
        reads: Digest word of each tensor that goes in, in order; 0 where it has none.
        names: By place in `reads`, the names of parameters, buffers and optimizer state.
        made: By place in `reads`, the number of the operation of this step that wrote it last; -1
            for one that is not noted (a copy).
        gives: Digest word of each tensor that comes out; 0 where it has none, or none that counts.
        shapes: Dtype and shape of these, as text.
        plain: All that is no tensor, as text.
        draws: Digest word of the random stream before an operation that draws from it, else 0.
    """

    op: str
    module: str = ""
    phase: str = ""
    reads: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    made: dict[int, int] = field(default_factory=dict)
    gives: list[int] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    plain: str = ""
    draws: int = 0

    def to_json(self) -> list[Any]:
        """Return the form in a file of events."""
        names = {str(place): name for place, name in self.names.items()}
        made = {str(place): number for place, number in self.made.items()}
        return [
            self.op, self.module, self.phase, self.reads, names, made, self.gives,
            self.shapes, self.plain, self.draws,
        ]  # fmt: skip
