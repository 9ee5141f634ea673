"""DAT408: a batch that the model is given holds NaN or infinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.batch_place import MAX_NAMED, facts_of_batch, name_samples

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BadValues:
    """What is not finite in one input of the model.

    Attributes:
        path: Path of the input: `0`, `inputs.x`.
        num_nan: Elements that are NaN.
        num_positive: Elements that are +inf.
        num_negative: Elements that are -inf.
        num_elements: Elements in all.
        rows: The first rows of it that hold any.
        is_mask: All else is zero and nothing is NaN or +inf: an additive mask.
    """

    path: str
    num_nan: int
    num_positive: int
    num_negative: int
    num_elements: int
    rows: tuple[int, ...]
    is_mask: bool = False


def judge_values(
    bad: BadValues,
    *,
    step: int,
    rank: int,
    finite_behind: bool | None,
    record: SampleRecord | None,
) -> Finding | None:
    """Return the finding on an input that is not finite; None for a mask.

    Args:
        bad: What is not finite.
        step: Updates finished.
        rank: Rank of the process.
        finite_behind: Whether the loss (the answers, where nothing is trained) is finite all the
            same: the model masks such values, or replaces them. None where that is not known.
        record: The delivered batch that the input is; None where it cannot be told.
    """
    if bad.is_mask:
        return None
    samples = []
    if record is not None and record.indices is not None and not record.hashed:
        samples = [record.indices[row] for row in bad.rows if row < len(record.indices)]
    counts = {"NaN": bad.num_nan, "+inf": bad.num_positive, "-inf": bad.num_negative}
    told = " and ".join(f"{number} {name}" for name, number in counts.items() if number)
    whose = f" ({name_samples(samples)} of {record.loader})" if samples and record else ""
    masked = ", and the loss is finite all the same" if finite_behind else ""
    worker = record.worker if record is not None and record.worker >= 0 else None
    return rule("DAT408").finding(
        f"input {bad.path or 'of the model'} holds {told} of {bad.num_elements} values{whose}"
        f" at step {step}{masked}",
        where=Location(
            step=step,
            rank=rank,
            link=Link.BATCH,
            worker=worker,
            sample=samples[0] if samples else None,
            tensor=bad.path or None,
        ),
        evidence={
            "input": bad.path,
            "num_nan": bad.num_nan,
            "num_positive_infinity": bad.num_positive,
            "num_negative_infinity": bad.num_negative,
            "num_elements": bad.num_elements,
            "rows": list(bad.rows[:MAX_NAMED]),
            "samples": samples[:MAX_NAMED],
            **(facts_of_batch(record) if record is not None else {}),
        },
        severity=Severity.WARNING if finite_behind else None,
        certainty=Certainty.STRONG if finite_behind else None,
    )
