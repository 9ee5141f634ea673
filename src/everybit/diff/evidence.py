"""What was measured at the first divergent event: how broad it is, and how large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from everybit.core.link import Link

#: Upper ends of the relative L2 distance that another order of summation, another thread count or
#: another kernel of the same precision makes at the first tensor it reaches, in float32. Measured
#: at 5e-8 to 4e-7 in the forward pass, up to 5e-7 in gradients and 6e-8 in updated weights; ten
#: times that leaves room for deep sums.
BANDS: Final = {
    Link.FORWARD: 4e-6,
    Link.LOSS: 4e-6,
    Link.GRAD: 1e-5,
    Link.REDUCE: 1e-5,
    Link.UPDATE: 1e-6,
    Link.OUTPUT: 4e-6,
}
#: The same where values are rounded to a narrow type: a few units of its last place.
NARROW_BANDS: Final = {"bfloat16": 2.0**-6, "float16": 2.0**-9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Breadth and size of the first difference of a computed link. None: not known.

    Attributes:
        source: `record`, `zoom` (computed again, more closely), or `reanchored` (computed again
            from the state of A).
        num_tensors: Tensors of the same link of that step which both sides have.
        num_tensors_moved: Those of them that differ.
        num_blocks: Parts of the first differing tensor whose sums both sides have.
        num_blocks_moved: Those of them that differ.
        relative: L2 distance of the first differing tensor over the L2 norm of A; from block sums
            an estimate (errors taken as independent), of a loss the exact one.
        outlier: The largest change of a block over the upper quartile of the changes.
        num_elements: Elements of the tensor.
        num_elements_moved: Those of them that differ.
        max_ulp: Largest distance in units of the last place.
        elements: Flat row-major indices of the first elements that differ.
        float64_ratio: Error of the worse side against float64 over the error of the better one.
        band: Upper end of the relative distance that counts as noise.
        band_source: Where that comes from, in words.
        repeats: What proves that the job repeats bit for bit, in words; "" where nothing does.
        first: Whether this is the first step that both runs computed.
        confined: The value is one number, and all that it is computed from agrees.
        independent: The tensors of the link do not follow from each other (gradients of parameters,
            updates), so that how many of them moved tells of breadth.
    """

    source: str = "record"
    num_tensors: int = 0
    num_tensors_moved: int = 0
    num_blocks: int | None = None
    num_blocks_moved: int | None = None
    relative: float | None = None
    outlier: float | None = None
    num_elements: int | None = None
    num_elements_moved: int | None = None
    max_ulp: float | None = None
    elements: tuple[int, ...] = ()
    float64_ratio: float | None = None
    band: float = BANDS[Link.FORWARD]
    band_source: str = "published for float32"
    repeats: str = ""
    first: bool = False
    confined: bool = False
    independent: bool = False

    @property
    def share(self) -> float | None:
        """The share that moved: of elements, of blocks, else of tensors; None where not known."""
        for moved, total in (
            (self.num_elements_moved, self.num_elements),
            (self.num_blocks_moved, self.num_blocks),
        ):
            if moved is not None and total:
                return moved / total
        if self.independent and self.num_tensors:
            return self.num_tensors_moved / self.num_tensors
        return None

    @property
    def parts(self) -> int:
        """Into how many parts `share` divides the tensor; 0 where nothing is known."""
        if self.num_elements_moved is not None:
            return self.num_elements or 0
        if self.num_blocks_moved is not None:
            return self.num_blocks or 0
        return self.num_tensors if self.independent else 0

    def to_json(self) -> dict[str, Any]:
        """Return what is known, JSON-ready."""
        known = {
            "source": self.source,
            "num_blocks": self.num_blocks,
            "num_blocks_moved": self.num_blocks_moved,
            "num_elements": self.num_elements,
            "num_elements_moved": self.num_elements_moved,
            "relative": self.relative,
            "outlier": self.outlier,
            "max_ulp": self.max_ulp,
            "elements": list(self.elements) or None,
            "float64_ratio": self.float64_ratio,
            "band": self.band,
            "band_source": self.band_source,
            "repeats": self.repeats or None,
        }
        return {key: value for key, value in known.items() if value is not None}
