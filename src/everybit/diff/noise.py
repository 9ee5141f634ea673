"""Noise, corruption, or not to be told: judged at the first divergent event, never by later drift.

Another thread count or kernel moves most of the first tensor that it reaches by about a unit of the
last place. Damage moves few elements of one tensor, by any amount. Where the same job in the same
place is known to repeat, any bit that differs is real.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Certainty

if TYPE_CHECKING:
    from everybit.diff.evidence import Evidence

#: Rounding moves 69 to 100 % of the blocks of the first tensor (23 to 92 % of its elements).
_BROAD: Final = 0.5
_BROAD_ELEMENTS: Final = 0.2
#: One damaged element moves one block; a damaged row or column of a product some more.
_NARROW: Final = 0.25
#: With fewer parts than these, one that moved is neither few nor most of them.
_FEWEST_PARTS: Final = 8
_FEWEST_TENSORS: Final = 3
#: Relative distances of gradients that a program scales otherwise.
_SCALED: Final = (0.1, 10.0)
#: Changes of blocks by rounding lie within this factor of their upper quartile, whatever the
#: blocks' own sizes.
_OUTLIER: Final = 64.0
#: Healthy results err at most 1.4 times as much as others against float64.
_HEALTHY_RATIO: Final = 2.0
_FAULTY_RATIO: Final = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What the evidence says.

    Attributes:
        kind: `noise`, `corruption` or `unknown`.
        certainty: What stands behind it.
        why: One clause.
    """

    kind: DivergenceKind
    certainty: Certainty
    why: str


def judge_evidence(
    evidence: Evidence, *, environment: bool, settled: bool, code: bool = False
) -> Weighed:
    """Weigh breadth and size of a first difference.

    Args:
        evidence: What was measured.
        environment: Whether something differs that changes the order or the precision of
            arithmetic (threads, libraries, processor, number of ranks).
        settled: Whether everything else on record is the same: environment, code, configuration.
        code: Whether code or its arguments differ: such a difference can do anything.
    """
    size, told = size_of(evidence), _told(evidence)
    if evidence.float64_ratio is not None and evidence.float64_ratio > _FAULTY_RATIO:
        return _weighed(
            "CORRUPTION",
            "STRONG",
            f"against float64 one side errs {evidence.float64_ratio:.3g} times as much as the "
            f"other, and healthy kernels no more than {_HEALTHY_RATIO:g} times; {told}",
        )
    if is_narrow(evidence):
        if code:
            why = f"few values differ, and so does the code that computes them: {told}"
            return _weighed("UNKNOWN", "WEAK", why)
        return _narrow(evidence, size, told, environment=environment, settled=settled)
    if settled and evidence.repeats:
        return _real(evidence, size, told)
    if size == "beyond":
        return _weighed("UNKNOWN", "WEAK", f"too large for rounding, and not confined: {told}")
    if not environment:
        return _weighed(
            "UNKNOWN", "WEAK", f"nothing on record tells whether this job repeats; {told}"
        )
    if evidence.outlier is not None and evidence.outlier > _OUTLIER:
        why = f"one block moved {evidence.outlier:.3g} times as far as the others; {told}"
        return _weighed("UNKNOWN", "WEAK", why)
    if size == "within" and is_broad(evidence):
        return _weighed("NOISE", "STRONG", f"as rounding in another order makes it: {told}")
    if size == "within" and evidence.share is None and evidence.first:
        return _weighed(
            "NOISE",
            "WEAK",
            "it begins with the first step computed in the other environment, and is as small as "
            f"rounding: {told}; `--trace module` or `--zoom` shows how broad it is",
        )
    return _weighed(
        "UNKNOWN", "WEAK", f"the record does not tell rounding from a small fault: {told}"
    )


def _narrow(
    evidence: Evidence, size: str, told: str, *, environment: bool, settled: bool
) -> Weighed:
    if size == "beyond":
        more = "" if settled else ", and nothing that differs between the runs moves so little"
        return _weighed("CORRUPTION", "STRONG", f"few values, far beyond rounding{more}: {told}")
    if not environment and settled and evidence.repeats:
        return _weighed(
            "CORRUPTION",
            "STRONG",
            f"nothing on record differs and {evidence.repeats}, so any bit that differs is real, "
            f"and few do: {told}",
        )
    if environment:
        why = "few values, as small as rounding, and the environment differs"
        return _weighed("UNKNOWN", "WEAK", f"{why}: {told}")
    return _weighed(
        "UNKNOWN", "WEAK", f"few values differ, and nothing proves that the job repeats: {told}"
    )


def _real(evidence: Evidence, size: str, told: str) -> Weighed:
    """Judge a difference of a job that repeats, with nothing on record to cause it."""
    proof = f"nothing on record differs and {evidence.repeats}, so the difference is real"
    if size == "within" and is_broad(evidence):
        why = f"{proof}; it looks like rounding in another order, whose cause is not on record"
        return _weighed("UNKNOWN", "WEAK", f"{why}: {told}")
    if _moves_all(evidence) or (is_broad(evidence) and not _by_tensor(evidence)):
        why = f"{proof}; damage is seldom so broad, and code that follows a file or a clock is"
        return _weighed("UNKNOWN", "WEAK", f"{why}: {told}")
    return _weighed(
        "CORRUPTION",
        "WEAK",
        f"{proof}: equal inputs gave another result; code that follows something not on record "
        f"(a clock, a file) would look the same; {told}",
    )


def is_broad(evidence: Evidence) -> bool:
    """Whether most of the first tensor moved; False where that is not known."""
    share = evidence.share
    by_element = evidence.num_elements_moved is not None
    return share is not None and share >= (_BROAD_ELEMENTS if by_element else _BROAD)


def _moves_all(evidence: Evidence) -> bool:
    """Whether every tensor moved, of several that do not follow from each other, and far.

    So does another clip or scale of the gradients. Damage within a backward pass leaves those alone
    that were computed before it; at the very last layer it moves all, but mostly by little, or
    beyond measure.
    """
    several = _by_tensor(evidence) and evidence.num_tensors >= _FEWEST_TENSORS
    low, high = _SCALED
    far = evidence.relative is not None and low <= evidence.relative <= high
    return several and far and evidence.num_tensors_moved == evidence.num_tensors


def is_narrow(evidence: Evidence) -> bool:
    """Whether few parts of the first tensor moved, or one number; False where that is not known."""
    share = evidence.share
    if evidence.confined:
        return True
    if _by_tensor(evidence) and evidence.num_tensors >= _FEWEST_TENSORS:
        return evidence.num_tensors_moved == 1
    if share is None or evidence.parts < _FEWEST_PARTS:
        return False
    by_element = evidence.num_elements_moved is not None
    return share <= (_BROAD_ELEMENTS / 4 if by_element else _NARROW)


def _by_tensor(evidence: Evidence) -> bool:
    return (
        evidence.independent
        and evidence.num_elements_moved is None
        and evidence.num_blocks_moved is None
    )


def size_of(evidence: Evidence) -> str:
    """Return whether the difference lies `within` the band, `beyond` it, or is not known ("")."""
    if evidence.relative is None:
        return ""
    if math.isnan(evidence.relative):
        return "beyond"
    return "within" if evidence.relative <= evidence.band else "beyond"


def _told(evidence: Evidence) -> str:
    parts = []
    if evidence.num_elements_moved is not None:
        parts.append(f"{evidence.num_elements_moved} of {evidence.num_elements} elements")
    elif evidence.num_blocks_moved is not None:
        parts.append(f"{evidence.num_blocks_moved} of {evidence.num_blocks} blocks")
    if evidence.relative is not None:
        parts.append(
            f"relative distance {evidence.relative:.2g} (noise: up to {evidence.band:.2g}, "
            f"{evidence.band_source})"
        )
    if not parts or _by_tensor(evidence):
        parts.append(
            f"of {evidence.num_tensors} tensors {evidence.num_tensors_moved} differ, by digest"
        )
    return ", ".join(parts)


def _weighed(kind: str, certainty: str, why: str) -> Weighed:
    return Weighed(kind=DivergenceKind[kind], certainty=Certainty[certainty], why=why)
