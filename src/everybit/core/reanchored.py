"""What computing one step again showed, from equal states: the operation at which two runs part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Certainty

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A right result has at most this multiple of the error of the other right results, measured
#: against float64: 1.2 between thread counts, 1.4 with other kernels.
HEALTHY: Final = 1.4
#: From this multiple on no rounding accounts for it; between the two the evidence cannot tell.
FAULTY: Final = 4.0
#: The same for the largest error of any element, which varies more from kernel to kernel.
FAULTY_LARGEST: Final = 16.0


class How(StrEnum):
    """In what the first operation differs at which two runs part, all before being equal."""

    CARRIED = "carried"
    GIVEN = "given"
    RNG = "rng"
    NUMBERS = "numbers"
    PATH = "path"
    COMPUTED = "computed"
    TRANSIENT = "transient"
    UNREPEATED = "unrepeated"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reanchored:
    """The evidence of computing a step again.

    Attributes:
        how: In what the first differing operation differs: a tensor that it reads changed though no
            operation wrote it (`carried`); a value came in from outside torch (`given`); a random
            stream (`rng`); a plain number it is given (`numbers`); it is another operation
            (`path`); equal inputs, another result (`computed`). Or the step, computed again, gives
            the other run's bits (`transient`), neither's (`unrepeated`), or no difference
            (`equal`).
        step: The step.
        rank: The rank.
        side: The run that is at fault, where that is known: `A` or `B`.
        module: The module in whose call it lies; "" for the root or outside of any.
        op: The operation.
        phase: `forward`, `backward`, `update`, or "".
        name: The tensor that it reads or gives, where it has a name.
        detail: What else differs, in words: numbers, operations.
        num_elements: Of the tensor that differs.
        num_differing: How many of them differ.
        elements: The first of them, as flat row-major indices.
        value_a: The first differing element in A.
        value_b: And in B.
        max_ulp: Largest distance in units of the last place; None where the dtype has none.
        relative: L2 of the difference over L2 of A.
        max_abs: Largest difference.
        same_settings: Both runs have the same threads and precision flags.
        explained: A's inputs, computed under B's settings, give B's bits; None where not tried.
        repeats: Computed again under its own settings the operation gives the same bits.
        band: Largest relative distance between right results under other thread counts and
            kernels; None where there are none.
        band_source: How it was measured.
        ratio: Error of the suspected result against float64 over the largest of the right ones.
        ratio_largest: The same for the largest error of any element.
    """

    how: How
    step: int
    rank: int = 0
    side: str = ""
    module: str = ""
    op: str = ""
    phase: str = ""
    name: str = ""
    detail: str = ""
    num_elements: int = 0
    num_differing: int = 0
    elements: tuple[int, ...] = ()
    value_a: float | None = None
    value_b: float | None = None
    max_ulp: int | None = None
    relative: float | None = None
    max_abs: float | None = None
    same_settings: bool = True
    explained: bool | None = None
    repeats: bool | None = None
    band: float | None = None
    band_source: str = ""
    ratio: float | None = None
    ratio_largest: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is known, JSON-ready."""
        left_out = (None, "", ())
        told = {key: value for key, value in asdict(self).items() if value not in left_out}
        told["how"] = str(self.how)
        if self.elements:
            told["elements"] = list(self.elements)
        for key in ("value_a", "value_b", "relative", "max_abs", "band", "ratio", "ratio_largest"):
            if isinstance(told.get(key), float) and not _is_finite(told[key]):
                told[key] = repr(told[key])
        if not self.num_elements:
            told.pop("num_elements"), told.pop("num_differing")
        return told

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reanchored:
        """Rebuild the value from `to_json`'s form."""
        values = dict(data)
        values["how"] = How(values["how"])
        if "elements" in values:
            values["elements"] = tuple(values["elements"])
        for key, value in values.items():
            if isinstance(value, str) and value in ("nan", "inf", "-inf"):
                values[key] = float(value)
        return cls(**values)


def judge_reanchored(found: Reanchored) -> tuple[DivergenceKind, Certainty, str]:
    """Return the kind, how sure it is, and a sentence that says why."""
    judge = {
        How.CARRIED: _carried,
        How.GIVEN: _given,
        How.RNG: _rng,
        How.NUMBERS: _numbers,
        How.PATH: _path,
        How.COMPUTED: _computed,
        How.TRANSIENT: _transient,
        How.UNREPEATED: _unrepeated,
        How.EQUAL: _equal,
    }[found.how]
    return judge(found)


_Judged = tuple[DivergenceKind, Certainty, str]


def _carried(found: Reanchored) -> _Judged:
    why = (
        f"{found.name or 'a tensor'} changed between two operations, and none wrote it: "
        f"{found.op} is the first to read it"
    )
    return DivergenceKind.CORRUPTION, Certainty.STRONG, why


def _given(found: Reanchored) -> _Judged:
    why = f"{_place(found)} reads a value that came in from outside torch, and it differs"
    return DivergenceKind.DATA, Certainty.STRONG, why


def _rng(found: Reanchored) -> _Judged:
    why = f"{_place(found)} draws from a random stream that stands elsewhere"
    return DivergenceKind.RNG, Certainty.PROOF, why


def _numbers(found: Reanchored) -> _Judged:
    why = f"{_place(found)} is given other numbers, its tensors being equal: {found.detail}"
    return DivergenceKind.CONFIG, Certainty.PROOF, why


def _path(found: Reanchored) -> _Judged:
    why = f"the programs take different paths, all values before being equal: {found.detail}"
    return DivergenceKind.CONFIG, Certainty.STRONG, why


def _transient(found: Reanchored) -> _Judged:
    if found.detail:
        return DivergenceKind.CORRUPTION, Certainty.STRONG, found.detail
    other = {"A": "B", "B": "A"}.get(found.side, "the other run")
    why = (
        f"step {found.step} of {found.side}, computed again under its own settings, gives the bits "
        f"of {other}: what {found.side} recorded is not what its code computes"
    )
    return DivergenceKind.CORRUPTION, Certainty.STRONG, why


def _unrepeated(found: Reanchored) -> _Judged:
    why = f"the step does not give the recorded bits again: {found.detail or 'nothing follows'}"
    return DivergenceKind.UNKNOWN, Certainty.WEAK, why


def _equal(found: Reanchored) -> _Judged:
    why = (
        f"step {found.step} has the same bits on both sides this time, and nothing tells "
        "which record is right"
    )
    return DivergenceKind.UNKNOWN, Certainty.WEAK, why


def _computed(found: Reanchored) -> _Judged:
    """Equal inputs and another result: rounding under other settings, or a wrong result."""
    place = _place(found)
    if found.repeats is False:
        why = f"{place} gives other bits each time it is computed: it does not repeat"
        return DivergenceKind.UNKNOWN, Certainty.STRONG, why
    if found.explained:
        why = f"{place}, computed from A's inputs under B's settings, gives B's bits exactly"
        return DivergenceKind.NOISE, Certainty.PROOF, why
    measured = _measured(found)
    if found.same_settings:
        why = f"{place} has equal inputs and equal settings, and another result{measured}"
        sure = Certainty.PROOF if found.repeats else Certainty.STRONG
        return DivergenceKind.CORRUPTION, sure, why
    if found.ratio is None:
        why = f"{place} has equal inputs and another result; no float64 result tells more"
        return DivergenceKind.UNKNOWN, Certainty.WEAK, why
    largest = found.ratio_largest or 0.0
    if not (found.ratio < FAULTY and largest < FAULTY_LARGEST):
        why = f"no rounding accounts for the result of {place}{measured}"
        return DivergenceKind.CORRUPTION, Certainty.STRONG, why
    if found.explained is None and found.ratio <= HEALTHY and _is_within(found):
        why = f"the result of {place} is as near to float64 as other right ones{measured}"
        return DivergenceKind.NOISE, Certainty.STRONG, why
    why = f"the result of {place} is neither explained by B's settings nor clearly wrong{measured}"
    return DivergenceKind.UNKNOWN, Certainty.WEAK, why


def _is_within(found: Reanchored) -> bool:
    """Whether the distance is one that other thread counts or kernels show on this very step."""
    return (
        found.band is not None
        and found.relative is not None
        and found.relative <= 2 * found.band
        and found.num_differing > 1
    )


def _measured(found: Reanchored) -> str:
    told = []
    if found.ratio is not None:
        told.append(f"its error against float64 is {found.ratio:.3g} times that of right results")
    if found.num_elements:
        told.append(f"{found.num_differing:,} of {found.num_elements:,} elements differ")
    return f" ({'; '.join(told)})" if told else ""


def _place(found: Reanchored) -> str:
    inside = f" of {found.module}" if found.module else ""
    return f"{found.op or 'an operation'}{inside}" + (f" ({found.phase})" if found.phase else "")


def _is_finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")
