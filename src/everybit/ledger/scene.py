"""What an incident keeps: values for its writer, and the names of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from everybit.core.finding import Finding

#: Folder of a run that holds its incidents.
FOLDER: Final = "incidents"
SCHEMA: Final = "everybit.incident/1"
INCIDENT_FILE: Final = "incident.json"
ARRAYS_FILE: Final = "scene.npz"

NAME: Final = re.compile(r"(\d{1,19})-([A-Z]{3}\d{3})-r(\d{1,9})(?:-(\d{1,6}))?")

#: dtypes whose elements NumPy holds under the same name; of the others it has the bytes only.
NUMPY_DTYPES: Final = frozenset(
    {
        "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
        "float16", "float32", "float64", "complex64", "complex128",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedTensor:
    """A tensor of a scene: whole, or the run of its elements around the damage.

    Attributes:
        name: Its name in the ledger's tables (`AdamW::exp_avg::head.weight`, `grad::head.weight`).
        dtype: Canonical dtype name.
        shape: Shape of the whole tensor.
        first: Flat index of the first element that is kept.
        found: Bytes of the kept elements as they were found.
        right: Bytes as they should be; None where they are not known.
        row_major: Whether flat indices count in row-major order; else in that of the memory
            (a large tensor in `channels_last`, say).
        note: What was left out and why; "" for a whole tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    first: int = 0
    found: NDArray[np.uint8]
    right: NDArray[np.uint8] | None = None
    row_major: bool = True
    note: str = ""

    @property
    def count(self) -> int:
        """Elements that are kept."""
        return len(self.found) // ITEMSIZE[self.dtype]

    @property
    def whole(self) -> bool:
        """Whether every element is kept, in row-major order."""
        total = 1
        for size in self.shape:
            total *= size
        return self.row_major and self.first == 0 and self.count == total

    def array(self, which: str = "found") -> NDArray[Any]:
        """Return the elements as NumPy holds them: whole tensors in shape, runs flat.

        Args:
            which: `found` or `right`.

        Returns:
            An array of the tensor's dtype; where NumPy has no such dtype (bfloat16, float8), of
            bytes, with the bytes of an element as last dimension.

        Raises:
            KeyError: The right bytes are not known.
        """
        data = self.bytes_of(which)
        shape = self.shape if self.whole else (self.count,)
        if self.dtype in NUMPY_DTYPES:
            return data.view(self.dtype).reshape(shape)
        return data.reshape((*shape, ITEMSIZE[self.dtype]))

    def bytes_of(self, which: str) -> NDArray[np.uint8]:
        """Return the bytes `found` or `right`; raises `KeyError` where there are none."""
        data = {"found": self.found, "right": self.right}[which]
        if data is None:
            raise KeyError(f"the right bytes of {self.name} are not known")
        return data


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RngStates:
    """States of the global random generators, in plain values.

    Attributes:
        arrays: `python` (uint32 words), `numpy` (uint32 words), `torch` and `cuda:0` (bytes).
        facts: What goes with the words, by generator: `{"python": {"version": 3, "gauss": None}}`.
        missing: Generators that are not kept, and why.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """What is known at the moment of an incident.

    Attributes:
        step: Updates finished or skipped so far.
        findings: What was found at this moment; at least one.
        tensors: Tensors involved.
        rng: Random generators.
        losses: `(step, value)` of the last losses, oldest first.
        batch: The batch, where it is kept: tensors named by their path in the inputs.
        notes: What was left out and why.
    """

    step: int
    findings: tuple[Finding, ...]
    tensors: tuple[SavedTensor, ...] = ()
    rng: RngStates = field(default_factory=RngStates)
    losses: tuple[tuple[int, float], ...] = ()
    batch: tuple[SavedTensor, ...] = ()
    notes: tuple[str, ...] = ()
