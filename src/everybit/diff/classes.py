"""The classes of a difference between two model files, and what each of them means."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Severity


class DifferenceClass(StrEnum):
    """What sets two tensors, or two files, apart."""

    IDENTICAL = "identical"
    CONTAINER = "container only"
    PREFIX = "prefix"
    TIED = "tied"
    RENAMED = "renamed"
    NAME_DAMAGED = "name damaged"
    WIDENED = "dtype widened"
    ROUNDED = "dtype round trip"
    OVERFLOW = "dtype overflow"
    ROUNDING = "rounding"
    STATISTICS = "BatchNorm statistics"
    TRAINING = "training step"
    ELEMENT = "single element"
    RUN = "run"
    PAGE = "page"
    ZEROS = "all zeros"
    SIGN = "sign"
    SCALE = "scale"
    PERMUTED = "permuted"
    TRANSPOSED = "transposed"
    SWAPPED = "swapped"
    REINITIALISED = "re-initialised"
    RESHAPED = "other form"
    MISSING = "missing"
    EXTRA = "extra"
    DAMAGED = "damaged file"
    FILE_MISSING = "file missing"
    FILE_EXTRA = "file extra"
    FILE_BYTES = "file bytes"
    UNKNOWN = "unknown"


class Meaning(StrEnum):
    """What a difference comes to for the person who asks."""

    EQUAL = "equal"
    HARMLESS = "harmless"
    OTHER_MODEL = "another model"
    REWRITTEN = "rewritten by software"
    INCOMPLETE = "incomplete"
    DAMAGE = "damage"
    UNKNOWN = "unknown"


_C = DifferenceClass

MEANING: Final[dict[DifferenceClass, Meaning]] = {
    _C.IDENTICAL: Meaning.EQUAL,
    _C.CONTAINER: Meaning.HARMLESS,
    _C.PREFIX: Meaning.HARMLESS,
    _C.TIED: Meaning.HARMLESS,
    _C.RENAMED: Meaning.REWRITTEN,
    _C.NAME_DAMAGED: Meaning.DAMAGE,
    _C.WIDENED: Meaning.HARMLESS,
    _C.ROUNDED: Meaning.HARMLESS,
    _C.OVERFLOW: Meaning.DAMAGE,
    _C.ROUNDING: Meaning.HARMLESS,
    _C.STATISTICS: Meaning.HARMLESS,
    _C.TRAINING: Meaning.OTHER_MODEL,
    _C.ELEMENT: Meaning.DAMAGE,
    _C.RUN: Meaning.DAMAGE,
    _C.PAGE: Meaning.DAMAGE,
    _C.ZEROS: Meaning.DAMAGE,
    _C.SIGN: Meaning.REWRITTEN,
    _C.SCALE: Meaning.REWRITTEN,
    _C.PERMUTED: Meaning.REWRITTEN,
    _C.TRANSPOSED: Meaning.REWRITTEN,
    _C.SWAPPED: Meaning.REWRITTEN,
    _C.REINITIALISED: Meaning.OTHER_MODEL,
    _C.RESHAPED: Meaning.OTHER_MODEL,
    _C.MISSING: Meaning.INCOMPLETE,
    _C.EXTRA: Meaning.OTHER_MODEL,
    _C.DAMAGED: Meaning.DAMAGE,
    _C.FILE_MISSING: Meaning.INCOMPLETE,
    _C.FILE_EXTRA: Meaning.HARMLESS,
    _C.FILE_BYTES: Meaning.UNKNOWN,
    _C.UNKNOWN: Meaning.UNKNOWN,
}

#: The kind of the contract, where the class proves one; `unknown` else.
KIND: Final[dict[DifferenceClass, DivergenceKind]] = {
    _C.NAME_DAMAGED: DivergenceKind.CORRUPTION,
    _C.WIDENED: DivergenceKind.CONFIG,
    _C.ROUNDED: DivergenceKind.CONFIG,
    _C.OVERFLOW: DivergenceKind.CORRUPTION,
    _C.ROUNDING: DivergenceKind.NOISE,
    _C.PAGE: DivergenceKind.CORRUPTION,
    _C.REINITIALISED: DivergenceKind.INIT,
    _C.MISSING: DivergenceKind.MISSING,
    _C.EXTRA: DivergenceKind.MISSING,
    _C.DAMAGED: DivergenceKind.CORRUPTION,
    _C.FILE_MISSING: DivergenceKind.MISSING,
    _C.FILE_EXTRA: DivergenceKind.MISSING,
}

#: Lowered only where an exact test accounts for every bit that differs.
SEVERITY: Final[dict[DifferenceClass, Severity]] = {
    _C.WIDENED: Severity.NOTE,
    _C.ROUNDED: Severity.WARNING,
    _C.RENAMED: Severity.WARNING,
    _C.FILE_EXTRA: Severity.NOTE,
}

#: The gravest first: the order of findings and of the headline.
ORDER: Final[tuple[DifferenceClass, ...]] = (
    _C.DAMAGED,
    _C.NAME_DAMAGED,
    _C.PAGE,
    _C.ELEMENT,
    _C.RUN,
    _C.OVERFLOW,
    _C.ZEROS,
    _C.SWAPPED,
    _C.SIGN,
    _C.SCALE,
    _C.PERMUTED,
    _C.TRANSPOSED,
    _C.UNKNOWN,
    _C.REINITIALISED,
    _C.RESHAPED,
    _C.TRAINING,
    _C.STATISTICS,
    _C.ROUNDING,
    _C.FILE_MISSING,
    _C.MISSING,
    _C.FILE_BYTES,
    _C.ROUNDED,
    _C.RENAMED,
    _C.EXTRA,
    _C.WIDENED,
    _C.FILE_EXTRA,
    _C.PREFIX,
    _C.TIED,
    _C.CONTAINER,
    _C.IDENTICAL,
)
