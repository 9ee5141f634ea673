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
_WORDS_OF_32: Final = frozenset(("int32", "uint32"))
_WORDS_OF_64: Final = frozenset(("int64", "uint64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInput:
    """An input of the model that holds token ids.

    Attributes:
        path: Path of the input.
        dtype: Its type.
        lowest: Its lowest value.
        highest: Its highest value.
        gaps: Where each row's zeros lie, if every second value of it is zero (at most `high_words`)
            and the others are not, as words of 32 bits look that are read as words of 16: 1 for
            the second of each pair, 0 for the first. Empty where rows are not like that.
    """

    path: str
    dtype: str
    lowest: int
    highest: int
    gaps: frozenset[int] = frozenset()


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


def judge_gaps(
    tokens: TokenInput, sources: Mapping[str, str], *, step: int, rank: int
) -> Finding | None:
    """Return the finding on ids of which every second one is zero, unless it is meant so.

    Args:
        tokens: The input.
        sources: Types of the arrays of ids that the data set holds, by path.
        step: Updates finished.
        rank: Rank of the process.
    """
    if not tokens.gaps or gaps_meant(tokens, sources):
        return None
    bits = 32 if sources and set(sources.values()) <= _WORDS_OF_32 else 16
    return _finding(
        f"every second token id of input {tokens.path or 'of the model'} is zero: ids of"
        f" {2 * bits} bits were read as {bits}, at step {step}",
        tokens,
        {"kind": "gaps"},
        step=step,
        rank=rank,
    )


def gaps_meant(tokens: TokenInput, sources: Mapping[str, str]) -> str:
    """Say why ids of which every second one is zero are taken for what the program means.

    A blank or padding id between all others is common in speech and in alignments. What was read
    as a narrower type comes from an array of that type, or lies now so, now so in its rows, as
    they were cut.

    Args:
        tokens: The input.
        sources: Types of the arrays of ids that the data set holds, by path.

    Returns:
        The reason; "" where it is not so.
    """
    if not tokens.gaps or len(tokens.gaps) > 1 or set(sources.values()) & LARGEST.keys():
        return ""
    if 0 in tokens.gaps:
        return "every second token id is zero, from the first one on: a blank between all others"
    if sources and set(sources.values()) <= _WORDS_OF_64:
        return (
            "every second token id is zero, and the data set holds them in words of 64 bits, which"
            " nothing wider can have been read as: a blank between all others"
        )
    return ""


def gaps_in(rows: Sequence[Sequence[int]], *, high_words: int = 0) -> frozenset[int]:
    """Return where zeros lie, if every second value of each row is zero and the others are various.

    Args:
        rows: Some rows of ids.
        high_words: Largest upper half of an id of the vocabulary.

    >>> sorted(gaps_in([[7, 0, 5, 0, 9, 0, 4, 0], [0, 3, 0, 8, 0, 6, 0, 2]]))
    [0, 1]
    >>> gaps_in([[7, 3, 5, 0, 0, 0, 0, 0]])
    frozenset()
    """
    if not rows or min(map(len, rows)) < 8:
        return frozenset()
    found = set()
    for row in rows:
        halves = (row[::2], row[1::2])
        # The lower half comes first in nearly all files.
        place = next((at for at in (1, 0) if _is_gap(halves[at], halves[1 - at], high_words)), None)
        if place is None:
            return frozenset()
        found.add(place)
    return frozenset(found)


def _is_gap(low: Sequence[int], high: Sequence[int], high_words: int) -> bool:
    if min(low) < 0 or max(low) > high_words or len(set(high)) < 3 or min(high) < 0:
        return False
    return sum(value > high_words for value in high) > len(high) // 2


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
