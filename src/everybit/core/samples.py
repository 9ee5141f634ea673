"""What a loader delivered, and what its sampler promises: values that judges and readers share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Order(StrEnum):
    """How a sampler goes through a data set."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"
    REPLACEMENT = "replacement"
    WEIGHTED = "weighted"
    SUBSET = "subset"
    DISTRIBUTED = "distributed"
    CUSTOM = "custom"
    ITERABLE = "iterable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """One batch as it was delivered to the loop.

    Attributes:
        loader: Name of the loader, the same in every run of a script.
        epoch: Passes over this loader that were begun before, from 0.
        batch: Number in the epoch, from 0, in the order of delivery.
        step: Updates finished when it was delivered: the update it is for. -1 where it is for none:
            no gradients are wanted, or no watched module is in training mode.
        worker: Worker that made it, -1 for the process itself.
        rank: Rank of the process.
        indices: Keys of its samples; None where they are not known, or the data set has none.
        hashed: The keys are no plain integers: a hash of 63 bits stands for each.
        sample_digests: A 64-bit word a sample, of what the data set gave, before it was collated;
            empty where that is not known, 0 for a sample that has no digest.
        batch_digest: A 64-bit word of the collated batch, taken where it was collated; 0 with none.
        worker_rng: A 64-bit word of the global random streams (torch, NumPy, Python) of the process
            that made it, as the batch was begun; 0 where that is not known.
    """

    loader: str
    epoch: int
    batch: int
    step: int = -1
    worker: int = -1
    rank: int = 0
    indices: tuple[int, ...] | None = None
    hashed: bool = False
    sample_digests: tuple[int, ...] = ()
    batch_digest: int = 0
    worker_rng: int = 0

    @property
    def num_samples(self) -> int:
        """Samples in it, as far as they were counted."""
        return len(self.sample_digests) if self.indices is None else len(self.indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a loader's sampler promises, read from the sampler itself and never guessed.

    Attributes:
        order: How it goes through the data set.
        sampler: Name of the sampler's class, or of the batch sampler's where that is a custom one.
        length: Samples of the data set; None where it has no length.
        num_samples: Samples this process draws an epoch; None where the sampler has no length.
        once: Each of them is another one: none is drawn twice in an epoch.
        whole: All samples of the data set are drawn, but for those that `drop_last` leaves out.
        batch_size: Samples of a batch; None where the data set or a batch sampler decides.
        drop_last: A last batch that is not full is left out.
        shuffle: Another order is drawn for each epoch.
        num_replicas: Ranks that share the data set; 1 with no shards.
        shard: Which of the shards this is.
        padded: Shards are filled up with samples that another one has too.
        in_order: Batches are delivered in the order in which they were asked for.
        num_workers: Worker processes.
        persistent: Workers are kept from one epoch to the next.
        method: How workers are started (`fork`, `spawn`, `forkserver`), "" with none.
    """

    order: Order = Order.UNKNOWN
    sampler: str = ""
    length: int | None = None
    num_samples: int | None = None
    once: bool = False
    whole: bool = False
    batch_size: int | None = None
    drop_last: bool = False
    shuffle: bool = False
    num_replicas: int = 1
    shard: int = 0
    padded: bool = False
    in_order: bool = True
    num_workers: int = 0
    persistent: bool = False
    method: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return its fields, JSON-ready."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"order": str(self.order)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read it back; unknown keys are passed over.

        Raises:
            ValueError: The order is none that is known.

        >>> Promise.from_json(Promise(order=Order.RANDOM, length=8).to_json()).length
        8
        """
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        return cls(**known | {"order": Order(known.get("order", Order.UNKNOWN))})


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of one pass over a loader.

    Attributes:
        loader: Name of the loader.
        epoch: Number of the pass.
        num_batches: Batches that were delivered in it.
        whole: The loader had no more; False where the loop broke it off.
        promise: What the sampler promises.
        step: Updates finished.
    """

    loader: str
    epoch: int
    num_batches: int
    whole: bool
    promise: Promise
    step: int
