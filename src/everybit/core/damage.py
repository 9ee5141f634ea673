"""Damage at rest: what a carried tensor holds against what its last legitimate writer left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everybit.core.change import Change


class Role(StrEnum):
    """What a carried tensor is to the training loop."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    STATE = "optimizer state"
    GRADIENT = "gradient"


class LocatedBy(StrEnum):
    """What told the damaged elements."""

    VERBATIM = "verbatim"
    GRID = "grid"
    SHADOW = "shadow"
    ROWS = "rows"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Which part of a whole tensor lies in a process.

    Attributes:
        global_shape: Shape of the whole.
        offset: Where the part begins in each dimension; None where it is no plain block.
        placements: How the whole is laid out over the ranks, a text for each dimension of the mesh.
    """

    global_shape: tuple[int, ...]
    offset: tuple[int, ...] | None
    placements: tuple[str, ...]

    def elements(self, local: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return flat indices into the whole; none where it is not known where the part lies.

        Args:
            local: Flat row-major indices into the part.
            shape: Of the part.

        >>> Shard(global_shape=(4, 3), offset=(2, 0), placements=()).elements((4,), (2, 3))
        (10,)
        """
        if self.offset is None:
            return ()
        found = []
        for index in local:
            left, flat, step = index, 0, 1
            for size, start, whole in zip(
                reversed(shape), reversed(self.offset), reversed(self.global_shape), strict=True
            ):
                left, place = divmod(left, size)
                flat += (place + start) * step
                step *= whole
            found.append(flat)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One tensor whose bytes changed with no known writer.

    Attributes:
        role: Parameter, buffer, optimizer state or gradient.
        parameter: state_dict key of the parameter or buffer.
        module: Name of the root module where there are several, else None.
        optimizer: Name of the optimizer, for optimizer state.
        tensor: Name of the state tensor (`exp_avg`), for optimizer state.
        dtype: Canonical dtype name.
        shape: Shape.
        device: `cpu`, `cuda:0`.
        elements: Flat row-major indices of all damaged elements, where they are few.
        element_ranges: `[start, end)` ranges of them where they are many; with `located_by` rows,
            ranges each of which holds damage.
        num_elements: Damaged elements in all; 0 where only rows are known.
        changes: The first damaged elements with values and bits.
        num_bits: Flipped bits in all; 0 where the elements are not known.
        located_by: What told the place.
        confirmed: An independent fingerprint agrees with the bytes as they were.
        healed: The right bytes are back.
        last_right: Step at which the tensor was last found right, where it is not tested at each;
            None where it was found right before this step, or never tested before.
        doubt: A writer that nothing counts may have done it, in words; "" where none can.
        shard: Where the tensor is this rank's part of a larger one, which part; its shape and its
            elements are then those of the part.
    """

    role: Role
    parameter: str
    module: str | None = None
    optimizer: str | None = None
    tensor: str | None = None
    dtype: str
    shape: tuple[int, ...]
    device: str
    elements: tuple[int, ...] = ()
    element_ranges: tuple[tuple[int, int], ...] = ()
    num_elements: int = 0
    changes: tuple[Change, ...] = ()
    num_bits: int = 0
    located_by: LocatedBy
    confirmed: bool
    healed: bool = False
    last_right: int | None = None
    doubt: str = ""
    shard: Shard | None = None

    @property
    def name(self) -> str:
        """The name people read: `exp_avg of layer.weight (AdamW)`, `layer.weight`."""
        text = self.parameter
        if self.role is Role.GRADIENT:
            text = f"the gradient of {text}"
        if self.tensor is not None:
            text = f"{self.tensor} of {text} ({self.optimizer})"
        return f"{text} in {self.module}" if self.module else text
