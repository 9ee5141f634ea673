"""Faults as values: where, when, and which bits, with nothing left to chance.

A `Fault` is concrete. Drawing one from a seed, and writing it into memory, is `everybit.inject`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from everybit.core.boundary import Boundary
from everybit.core.finding import Location, place_elements
from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Mapping


class TargetKind(StrEnum):
    """What sort of tensor is hit; a gradient is a parameter's, between backward and update."""

    WEIGHT = "weight"
    BUFFER = "buffer"
    STATE = "state"
    GRADIENT = "gradient"


class Pattern(StrEnum):
    """The shape of the damage.

    `flip` inverts one bit; `multi-bit` several bits of one element; `stray-write` overwrites a
    contiguous run; `strided` inverts the same bits in every n-th element, as a faulty lane does;
    `stuck` forces bits to a value, again at every boundary for as long as it lasts; `tile` damages
    a block of rows and columns, as a wrong tile of a matrix product does; `zero` leaves a run of
    zeros, `stale` one of what was there a step before: writes that were lost.
    """

    FLIP = "flip"
    MULTI_BIT = "multi-bit"
    STRAY_WRITE = "stray-write"
    STRIDED = "strided"
    STUCK = "stuck"
    TILE = "tile"
    ZERO = "zero"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Damage to some elements of one tensor, at one moment.

    The bits set in an element's mask are inverted, or, where `values` are given, set as in its
    value.

    Attributes:
        kind: Weight, buffer, optimizer state or gradient.
        parameter: state_dict key of the parameter or buffer; for optimizer state, of the
            parameter it belongs to.
        module: Name of the root module that holds it, where there are several; "" for the first.
        tensor: Name of the optimizer state tensor (`exp_avg`), "" for weights and buffers.
        optimizer: Name of the optimizer (`AdamW`); "" for any.
        pattern: The shape of the damage.
        elements: Flat row-major indices, ascending.
        masks: The bits hit, one mask an element, counted from its least significant bit.
        values: What those bits become, one value an element; empty where they are inverted, and
            for `stale` until a campaign has seen the step before.
        step: The step in which the damaged bits are next used, counted from 0.
        boundary: The moment of that step.
        last_step: Of a stuck fault: the last step it lasts; None: until the end.
        seed: The seed it was drawn from, for the record.
    """

    kind: TargetKind
    parameter: str
    module: str = ""
    tensor: str = ""
    optimizer: str = ""
    pattern: Pattern = Pattern.FLIP
    elements: tuple[int, ...]
    masks: tuple[int, ...]
    values: tuple[int, ...] = ()
    step: int = 0
    boundary: Boundary = Boundary.FORWARD_START
    last_step: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.elements or len(self.masks) != len(self.elements):
            raise ValueError(f"{len(self.masks)} masks for {len(self.elements)} elements")
        if self.values and len(self.values) != len(self.elements):
            raise ValueError(f"{len(self.values)} values for {len(self.elements)} elements")
        if self.elements[0] < 0 or any(
            later <= earlier
            for earlier, later in zip(self.elements, self.elements[1:], strict=False)
        ):
            raise ValueError("elements must be ascending indices, each once")
        if min(self.masks) < 1 or min(self.values, default=0) < 0:
            raise ValueError("a mask is a positive integer and a value none below 0")
        if self.pattern is Pattern.STUCK and not self.values:
            raise ValueError("a stuck fault needs values")
        if self.kind is TargetKind.STATE and not self.tensor:
            raise ValueError("optimizer state needs the name of its tensor")

    def damage(self, position: int, word: int) -> int:
        """Return what the element at `position` in `elements` becomes, as an unsigned integer.

        >>> flip = Fault(kind=TargetKind.WEIGHT, parameter="w", elements=(7,), masks=(0b100,))
        >>> flip.damage(0, 0b101)
        1
        """
        mask = self.masks[position]
        if self.values:
            return (word & ~mask) | (self.values[position] & mask)
        return word ^ mask

    @property
    def where(self) -> Location:
        """The place as a `Location`, as a finding about this fault should name it."""
        return Location(
            parameter=self.parameter,
            module=self.module or None,
            tensor=self.tensor or None,
            optimizer=self.optimizer or None,
            step=self.step,
            link=Link.GRAD if self.kind is TargetKind.GRADIENT else Link.STATE,
            **place_elements(self.elements),
        )

    def active_at(self, step: int) -> bool:
        """Whether the fault acts in this step: once, or for as long as it is stuck."""
        if self.pattern is not Pattern.STUCK:
            return step == self.step
        return self.step <= step and (self.last_step is None or step <= self.last_step)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; masks and values as hexadecimal text, since they may have 128 bits."""
        return {
            "kind": str(self.kind),
            "parameter": self.parameter,
            "module": self.module,
            "tensor": self.tensor,
            "optimizer": self.optimizer,
            "pattern": str(self.pattern),
            "elements": list(self.elements),
            "masks": [f"{mask:x}" for mask in self.masks],
            "values": [f"{value:x}" for value in self.values],
            "step": self.step,
            "boundary": str(self.boundary),
            "last_step": self.last_step,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a fault from `to_json`'s form."""
        plain = dict(data)
        plain["kind"] = TargetKind(plain["kind"])
        plain["pattern"] = Pattern(plain["pattern"])
        plain["boundary"] = Boundary(plain["boundary"])
        plain["elements"] = tuple(plain["elements"])
        plain["masks"] = tuple(int(mask, 16) for mask in plain["masks"])
        plain["values"] = tuple(int(value, 16) for value in plain["values"])
        return cls(**plain)
