"""What a loader's sampler promises, and its order derived once more; from the sampler itself.

Only samplers of torch's own classes are read: a class of the program's may do anything in its
`__iter__`, and what it promises is not guessed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from everybit.core.samples import Order, Promise

if TYPE_CHECKING:
    from collections.abc import Iterable


_TWINS: Final[dict[str, type]] = {
    "RandomSampler": RandomSampler,
    "BatchSampler": BatchSampler,
    "StatefulDistributedSampler": DistributedSampler,
}
#: Keys that torch's RandomSampler draws at a time with replacement.
_PIECE: Final = 32


def promise_of(loader: Any) -> Promise:
    """Read what a torch DataLoader promises."""
    base = {
        "length": _length(loader.dataset),
        "batch_size": loader.batch_size,
        "drop_last": bool(loader.drop_last),
        "num_workers": loader.num_workers,
        "in_order": bool(getattr(loader, "in_order", True)) or loader.num_workers == 0,
        "persistent": bool(loader.persistent_workers) and loader.num_workers > 0,
        "method": _method(loader),
    }
    if is_iterable(loader):
        return Promise(**base | {"order": Order.ITERABLE, "sampler": ""})
    sampler, batches = _sampler_of(loader)
    if batches is not None:
        base |= {"batch_size": batches.batch_size, "drop_last": batches.drop_last}
    return Promise(**base | _read(sampler, base["length"]))


def is_iterable(loader: Any) -> bool:
    """Whether the loader's data set has no keys."""
    from torch.utils.data import _DatasetKind

    return bool(loader._dataset_kind == _DatasetKind.Iterable)


def generators_of(loader: Any) -> dict[str, torch.Generator]:
    """Return the generators that the loader and its sampler draw from, by role."""
    sampler, _ = _sampler_of(loader)
    named = {
        "loader": getattr(loader, "generator", None),
        "sampler": getattr(sampler, "generator", None),
        "batch_sampler": getattr(loader.batch_sampler, "generator", None),
    }
    found: dict[str, torch.Generator] = {}
    for name, generator in named.items():
        known = any(generator is other for other in found.values())
        if isinstance(generator, torch.Generator) and not known:
            found[name] = generator
    return found


def sampler_of(loader: Any) -> Any:
    """Return the sampler that decides, or the batch sampler where that is a custom one."""
    return _sampler_of(loader)[0]


def expected_order(loader: Any) -> Iterator[int] | None:
    """Return the order that the sampler is about to give, derived from copies of its generators.

    To be called before it draws. Nothing is drawn from the generators themselves.

    Returns:
        The keys, one at a time; None where it is no sampler of torch's own, or its generator is on
        an accelerator. A `Known` ends where the sampler is to draw once more, from a generator that
        the program may have drawn from by then.
    """
    order = _order(loader)
    if order is None:
        return None
    # The sampler is about to draw; by the first batch weights and indices may have been written.
    first = list(islice(order, 1))
    return Known(first, order) if isinstance(order, Known) else chain(first, order)


class Known(Iterator[int]):
    """The part of an order that is known as a pass begins.

    Args:
        parts: Its parts, one after the other.
    """

    def __init__(self, *parts: Iterable[int]) -> None:
        self._keys = chain(*parts)

    def __next__(self) -> int:
        return next(self._keys)


def _order(loader: Any) -> Iterator[int] | None:
    sampler, _ = _sampler_of(loader)
    kind = type(sampler)
    if kind is SequentialSampler:
        return iter(range(len(sampler.data_source)))
    if kind is DistributedSampler:
        shard: Iterator[int] = iter(copy.copy(sampler))
        return shard
    if kind not in (RandomSampler, SubsetRandomSampler, WeightedRandomSampler):
        return None
    generator = sampler.generator
    if generator is not None and (
        not isinstance(generator, torch.Generator) or generator.device.type != "cpu"
    ):
        return None
    twin = torch.Generator()
    twin.set_state((torch.default_generator if generator is None else generator).get_state())
    if kind is RandomSampler and generator is None:
        # As the sampler does: it draws a seed from the global stream, and shuffles with that.
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=twin).item())
        twin = torch.Generator()
        twin.manual_seed(seed)
    copied = copy.copy(sampler)
    copied.generator = twin
    order: Iterator[int] = iter(copied)
    if kind is RandomSampler and generator is not None:
        size = _PIECE if sampler.replacement else len(sampler.data_source)
        return Known(islice(order, size))
    return order


def _sampler_of(loader: Any) -> tuple[Any, Any]:
    """Return the sampler of keys, and the `BatchSampler` that groups them where there is one."""
    index = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if _kind_of(index) is BatchSampler:
        return index.sampler, index
    return index, None


def _kind_of(sampler: Any) -> type:
    """Return its class; of torchdata's samplers that of torch's that they behave as."""
    kind = type(sampler)
    if kind.__module__.partition(".")[0] == "torchdata":
        return _TWINS.get(kind.__name__, kind)
    return kind


def _read(sampler: Any, length: int | None) -> dict[str, Any]:
    kind = _kind_of(sampler)
    told: dict[str, Any] = {"order": Order.CUSTOM, "sampler": type(sampler).__name__}
    told["num_samples"] = _length(sampler)
    if kind is SequentialSampler:
        whole = _length(sampler.data_source) == length
        return told | {"order": Order.SEQUENTIAL, "once": True, "whole": whole}
    if kind is RandomSampler:
        if sampler.replacement:
            return told | {"order": Order.REPLACEMENT, "shuffle": True}
        size, drawn = len(sampler.data_source), sampler.num_samples
        whole = size == length and drawn >= size
        told |= {"order": Order.RANDOM, "shuffle": True}
        return told | {"once": drawn <= size, "whole": whole}
    if kind is SubsetRandomSampler:
        indices = list(sampler.indices)
        once = len(set(indices)) == len(indices)
        return told | {"order": Order.SUBSET, "shuffle": True, "once": once}
    if kind is WeightedRandomSampler:
        return told | {"order": Order.WEIGHTED, "shuffle": True, "once": not sampler.replacement}
    if kind is DistributedSampler:
        uneven = bool(length) and sampler.total_size != length
        padded = uneven and not sampler.drop_last
        return told | {
            "order": Order.DISTRIBUTED,
            "shuffle": bool(sampler.shuffle),
            "num_replicas": sampler.num_replicas,
            "shard": sampler.rank,
            "padded": padded,
            # A shard has a sample twice only where there are fewer samples than ranks.
            "once": not padded or (length or 0) >= sampler.num_replicas,
        }
    return told


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:
        return None


def _method(loader: Any) -> str:
    if loader.num_workers == 0:
        return ""
    context = loader.multiprocessing_context or torch.multiprocessing
    try:
        return str(context.get_start_method())
    except (AttributeError, RuntimeError):
        return ""
