"""What a check sees when a batch is delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.core.samples import Promise, SampleRecord
    from everybit.probe.samples import Facts


@dataclass(slots=True, kw_only=True, eq=False)  # One a batch: frozen it costs four times as much.
class Delivery:
    """A batch as it is about to be given to the loop; nobody writes to it.

    Attributes:
        record: What is recorded of it.
        promise: What the loader's sampler promises.
        facts: What was measured where the batch was made; None where nothing was.
        batch: The batch itself, as the loop gets it. It is not to be kept longer than needed.
        dataset: The data set, as this process has it; None where the loader is no DataLoader.
        loader: The loader; None where that is gone.
        step: Updates finished so far.
        training: Whether it is for an update.
        expected: Keys that the sampler's own order, derived once more, has for this batch; None
            where that is not known exactly.
        resumed: The first batch after a saved position.
        epoch_set: What `set_epoch` had told the sampler as the pass began; None with no such thing.
    """

    record: SampleRecord
    promise: Promise
    facts: Facts | None
    batch: Any
    dataset: Any
    loader: Any
    step: int
    training: bool
    expected: tuple[int, ...] | None = None
    resumed: bool = False
    epoch_set: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpochStart:
    """A pass over a loader that is about to begin: its workers are not made yet.

    Attributes:
        loader: Name of the loader.
        epoch: Number of the pass.
        source: The loader itself. It is not to be kept longer than needed.
        dataset: Its data set, as this process has it.
        promise: What its sampler promises.
        step: Updates finished so far.
    """

    loader: str
    epoch: int
    source: Any
    dataset: Any
    promise: Promise
    step: int
