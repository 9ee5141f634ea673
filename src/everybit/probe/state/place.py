"""A place within carried state, and what differs there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from everybit.core.change import MAX_LISTED, Change, changes_between
from everybit.core.finding import place_elements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

#: Differing elements that are told one by one or as ranges; the count is of all.
MAX_TOLD = 4096

_BITS_OF = np.array([byte.bit_count() for byte in range(256)])


class Kind(StrEnum):
    """What a part of the carried state is to the training loop."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    STATE = "optimizer state"
    GRADIENT = "gradient"
    SETTING = "setting"
    OTHER = "other"
    RNG = "rng"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One part of the carried state: its name, and where two states differ in it.

    Attributes:
        kind: What it is.
        name: Its unique name: a state_dict key, `AdamW::exp_avg::head.weight`,
            `AdamW.group0.lr`, `scaler.scale`, `rng.torch`, `gradient::head.weight`.
        parameter: state_dict key of the parameter or buffer it is, or belongs to.
        module: Name of the root module where there are several.
        optimizer: Name of the optimizer.
        tensor: Name of the optimizer state tensor.
        dtype: Canonical dtype name of a tensor, else "".
        shape: Its shape.
        device: Its device, `cpu` or `cuda:0`.
        elements: Flat row-major indices of the first differing elements, ascending.
        num_elements: How many differ; 0 where they cannot be told one by one.
        num_bits: Differing bits in all.
        changes: The first of them with values and bits: `before` is this state's, `after` the
            other's.
        detail: In words, where it is no tensor or is not in both.
    """

    kind: Kind
    name: str
    parameter: str | None = None
    module: str | None = None
    optimizer: str | None = None
    tensor: str | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    elements: tuple[int, ...] = ()
    num_elements: int = 0
    num_bits: int = 0
    changes: tuple[Change, ...] = ()
    detail: str = ""

    @property
    def where(self) -> dict[str, Any]:
        """The keys of a `Location` that it gives."""
        found: dict[str, Any] = {
            "parameter": self.parameter,
            "module": self.module,
            "optimizer": self.optimizer,
            "tensor": self.tensor,
            "device": self.device or None,
        }
        if self.elements:
            found |= place_elements(self.elements)
        if self.kind in (Kind.SETTING, Kind.OTHER, Kind.RNG):
            found["tensor"] = self.name
        return found


def differing(dtype: str, size: int, mine: Bytes, theirs: Bytes) -> dict[str, Any]:
    """Return the fields of a `Place` that tell which elements differ.

    Args:
        dtype: Canonical dtype name.
        size: Bytes of an element.
        mine: Canonical bytes of the one.
        theirs: And of the other, equally many.
    """
    at = np.flatnonzero(mine != theirs)
    places = np.unique(at // size)
    changes = [
        change
        for place in places[:MAX_LISTED].tolist()
        for change in changes_between(
            dtype,
            mine[place * size : (place + 1) * size].tobytes(),
            theirs[place * size : (place + 1) * size].tobytes(),
            place,
        )
    ]
    return {
        "elements": tuple(places[:MAX_TOLD].tolist()),
        "num_elements": len(places),
        "num_bits": int(_BITS_OF[mine[at] ^ theirs[at]].sum()),
        "changes": tuple(changes),
    }
