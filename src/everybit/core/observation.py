"""What a probe measured: digests of named tensors at one link of one step."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from everybit.core.link import Link

_SAMPLE = re.compile(r"\[(\d{1,9})\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTable:
    """Digests of named tensors, in the order of the names.

    Attributes:
        link: The link they were taken at.
        names: Unique names: state_dict keys, input paths (`0`, `labels`), RNG streams (`torch`).
        digests: One 64-bit `grid` (or truncated `tree`) word a name: a tuple as the ledger reads it
            back, or any sequence of unsigned 64-bit integers (a NumPy `uint64` array costs least to
            record). Tables are equal where the words are, whatever holds them.
    """

    link: Link
    names: tuple[str, ...]
    digests: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.digests):
            raise ValueError(f"{len(self.names)} names for {len(self.digests)} digests")

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(zip(self.names, self.words(), strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorTable):
            return NotImplemented
        return (
            self.link is other.link and self.names == other.names and self.words() == other.words()
        )

    def __hash__(self) -> int:
        return hash((self.link, self.names, self.words()))

    def words(self) -> tuple[int, ...]:
        """Return the digests as plain integers."""
        if isinstance(self.digests, tuple):
            return self.digests
        to_list = getattr(self.digests, "tolist", None)  # NumPy and array: no object an element
        return tuple(to_list() if to_list else map(int, self.digests))

    def as_dict(self) -> dict[str, int]:
        """Return `{name: digest}`."""
        return dict(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumTable:
    """Signed block sums and norms of named tensors: how large a difference is, and how wide.

    A row holds 64 signed block sums, then the L2 norm, then the largest absolute value. The
    elements in row-major order are cut into 64 blocks of `ceil(n / 64)`; element `j` of each block
    is added with the sign `block_signs` has at `j` (the last blocks may be shorter, or empty).

    Attributes:
        link: The link they were taken at.
        names: Names of the tensors, as in the `TensorTable` of the link.
        values: Real numbers, shape `(len(names), columns)`: a NumPy array of float32 or float64,
            or nested sequences. Read back from a ledger they are float64. NaN and infinities are
            what they are in the tensor.
    """

    link: Link
    names: tuple[str, ...]
    values: Any

    def __post_init__(self) -> None:
        if len(self.names) != len(self.values):
            raise ValueError(f"{len(self.names)} names for {len(self.values)} rows")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SumTable):
            return NotImplemented
        if self.link is not other.link or self.names != other.names:
            return False
        import numpy as np

        mine, theirs = (np.asarray(table.values, np.float64) for table in (self, other))
        return bool(np.array_equal(mine, theirs, equal_nan=True))

    def __hash__(self) -> int:
        return hash((self.link, self.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One finished or skipped update, as the ledger keeps it.

    Attributes:
        step: Updates finished or skipped before this one, over all optimizers, from 0.
        time_s: Wall clock at the end of the step, seconds since the epoch.
        duration_s: Seconds since the previous step ended (NaN for the first).
        guard_s: Seconds of those that the guard itself used.
        optimizer: Name of the optimizer that stepped, "" with none.
        skipped: The update did not happen (GradScaler).
        tainted: Damaged bits were used in it.
        losses: What `backward` received since the previous step, as numbers.
        tables: Digests, in causal order: batch, rng, forward, loss, grad, update. Of gradients
            there may be two: those of traced outputs, in the order in which they were computed,
            then those of parameters.
        scalars: Numbers of the step for timelines: `grad_norm`, `weight_norm`, `update_norm`,
            `scale` (of the GradScaler), `lr`, where they were measured. Any of them may be NaN.
        sums: Block sums of chosen tensors, at the steps where they are taken.
    """

    step: int
    time_s: float
    duration_s: float
    guard_s: float
    optimizer: str = ""
    skipped: bool = False
    tainted: bool = False
    losses: tuple[float, ...] = ()
    tables: tuple[TensorTable, ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict)
    sums: tuple[SumTable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Anything else worth keeping, by kind, as JSON-ready data (init digests go as a StepRecord).

    Attributes:
        kind: `phase`, `rebaseline`, `heal`, `warning`, `configuration`, ...
        step: When.
        data: JSON-ready facts.
    """

    kind: str
    step: int
    data: Mapping[str, Any] = field(default_factory=dict)


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or the first of `name#1`, `name#2` ... that is not taken.

    >>> unique_name("Adam", ["Adam", "Adam#1"]), unique_name("Adam", ["Adam#1"])
    ('Adam#2', 'Adam')
    """
    number = 0
    unique = name
    while unique in taken:
        number += 1
        unique = f"{name}#{number}"
    return unique


def state_entry(optimizer: str, parameter: str, tensor: str) -> str:
    """Return the table name of an optimizer state tensor.

    >>> state_entry("AdamW", "head.weight", "exp_avg")
    'AdamW::exp_avg::head.weight'
    """
    return f"{optimizer}::{tensor}::{parameter}"


def split_entry(name: str) -> dict[str, str]:
    """Return the `Location` keys of a table name of weights or optimizer state.

    >>> split_entry("AdamW::exp_avg::head.weight")
    {'optimizer': 'AdamW', 'tensor': 'exp_avg', 'parameter': 'head.weight'}
    >>> split_entry("head.weight")
    {'parameter': 'head.weight'}
    """
    optimizer, mark, rest = name.partition("::")
    if not mark:
        return {"parameter": name}
    tensor, _, parameter = rest.partition("::")
    return {"optimizer": optimizer, "tensor": tensor, "parameter": parameter}


def sample_entry(name: str, sample: int) -> str:
    """Return the table name of one sample's part of an output.

    >>> sample_entry("logits", 17)
    'logits[17]'
    """
    return f"{name}[{sample}]"


def sample_of(name: str) -> int | None:
    """Return which sample of a batch a table name means; None where it means all.

    >>> sample_of("logits[17]"), sample_of("logits")
    (17, None)
    """
    match = _SAMPLE.search(name)
    return int(match[1]) if match else None
