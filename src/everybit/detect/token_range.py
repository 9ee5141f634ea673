"""DAT412: token ids outside of the vocabulary, or of a type that cannot hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding

#: Largest value of the integer types that are too narrow for some vocabulary.
LARGEST: Final = {"int8": 127, "uint8": 255, "int16": 32_767, "uint16": 65_535}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInput:
    """An input of the model that holds token ids.

    Attributes:
        path: Path of the input.
        dtype: Its type.
        lowest: Its lowest value.
        highest: Its highest value.
        gaps: Every second value of each row is zero (at most `high_words`), and the others are
            not: as words of 32 bits look that are read as words of 16.
    """

    path: str
    dtype: str
    lowest: int
    highest: int
    gaps: bool = False


def judge_failed(
    tokens: TokenInput, embeddings: Mapping[str, int], *, step: int, rank: int
) -> Finding | None:
    """Return the finding on a call that ended in an error, where ids lie outside a vocabulary.

    Args:
        tokens: The input.
        embeddings: Number of rows of each embedding, by module.
        step: Updates finished.
        rank: Rank of the process.
    """
    if not embeddings:
        return None
    module, rows = max(embeddings.items(), key=lambda item: item[1])
    if tokens.lowest >= 0 and tokens.highest < rows:
        return None
    value = tokens.lowest if tokens.lowest < 0 else tokens.highest
    wrapped = " (a wrapped 16-bit number?)" if -(2**15) <= value < 0 else ""
    return _finding(
        f"input {tokens.path or 'of the model'} holds token id {value}{wrapped}, and {module} has"
        f" {rows} rows: the call ended in an error at step {step}",
        tokens,
        {"kind": "outside", "embedding": module, "vocabulary": rows},
        step=step,
        rank=rank,
    )


def judge_width(
    tokens: TokenInput,
    sources: Mapping[str, str],
    embeddings: Mapping[str, int],
    *,
    step: int,
    rank: int,
) -> Finding | None:
    """Return the finding on ids that are kept in a type too narrow for the vocabulary.

    Args:
        tokens: The input.
        sources: Types of the arrays of ids that the data set holds, by path.
        embeddings: Number of rows of each embedding, by module.
        step: Updates finished.
        rank: Rank of the process.
    """
    if not embeddings:
        return None
    module, rows = max(embeddings.items(), key=lambda item: item[1])
    narrow = {path: dtype for path, dtype in sources.items() if LARGEST.get(dtype, rows) < rows - 1}
    if tokens.dtype in LARGEST and LARGEST[tokens.dtype] < rows - 1:
        narrow["the input"] = tokens.dtype
    fitting = [dtype for dtype in sources.values() if LARGEST.get(dtype, rows) >= rows - 1]
    if not narrow or fitting or tokens.highest > max(LARGEST[d] for d in narrow.values()):
        return None  # Another array may well be where the ids come from.
    path, dtype = next(iter(narrow.items()))
    negative = tokens.lowest < 0
    return _finding(
        f"{path} keeps token ids as {dtype}, which ends at {LARGEST[dtype]}, and {module} has"
        f" {rows} rows: larger ids were wrapped when they were written",
        tokens,
        {"kind": "narrow", "embedding": module, "vocabulary": rows, "dtype": dtype, "array": path},
        step=step,
        rank=rank,
        severity=None if negative else Severity.WARNING,
    )


def judge_gaps(tokens: TokenInput, *, step: int, rank: int) -> Finding | None:
    """Return the finding on ids of which every second one is zero."""
    if not tokens.gaps:
        return None
    return _finding(
        f"every second token id of input {tokens.path or 'of the model'} is zero: ids of 32 bits"
        f" were read as 16, at step {step}",
        tokens,
        {"kind": "gaps"},
        step=step,
        rank=rank,
    )


def has_gaps(rows: Sequence[Sequence[int]], *, high_words: int = 0) -> bool:
    """Whether every second value of each row is zero and the others are various.

    Args:
        rows: Some rows of ids.
        high_words: Largest upper half of an id of the vocabulary.

    >>> has_gaps([[7, 0, 5, 0, 9, 0, 4, 0], [0, 3, 0, 8, 0, 6, 0, 2]])
    True
    >>> has_gaps([[7, 3, 5, 0, 0, 0, 0, 0]])
    False
    """
    if not rows or min(map(len, rows)) < 8:
        return False
    for row in rows:
        halves = (row[::2], row[1::2])
        if not any(
            min(low) >= 0 and max(low) <= high_words and len(set(high)) >= 3 and min(high) >= 0
            and sum(value > high_words for value in high) > len(high) // 2
            for low, high in (halves, halves[::-1])
        ):  # fmt: skip
            return False
    return True


def _finding(
    message: str,
    tokens: TokenInput,
    facts: dict[str, Any],
    *,
    step: int,
    rank: int,
    severity: Severity | None = None,
) -> Finding:
    outside = facts["kind"] == "outside"
    return rule("DAT412").finding(
        message,
        where=Location(step=step, rank=rank, link=Link.BATCH, tensor=tokens.path or None),
        evidence={
            **facts,
            "input": tokens.path,
            "lowest": tokens.lowest,
            "highest": tokens.highest,
        },
        severity=severity,
        certainty=Certainty.PROOF if outside else None,
    )
