"""What a probe measured: digests of named tensors at one link of one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everybit.core.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTable:
    """Digests of named tensors, in the order of the names.

    Attributes:
        link: The link they were taken at.
        names: Unique names: state_dict keys, input paths (`0`, `labels`), RNG streams (`torch`).
        digests: One 64-bit `grid` (or truncated `tree`) word a name.
    """

    link: Link
    names: tuple[str, ...]
    digests: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.digests):
            raise ValueError(f"{len(self.names)} names for {len(self.digests)} digests")

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(zip(self.names, self.digests, strict=True))

    def as_dict(self) -> dict[str, int]:
        """Return `{name: digest}`."""
        return dict(self)


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
        tables: Digests, in causal order: batch, rng, loss, grad, update.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Anything else worth keeping, by kind, as JSON-ready data (init digests go as a StepRecord).

    Attributes:
        kind: `phase`, `rebaseline`, `heal`, `warning`, ...
        step: When.
        data: JSON-ready facts.
    """

    kind: str
    step: int
    data: Mapping[str, Any] = field(default_factory=dict)
