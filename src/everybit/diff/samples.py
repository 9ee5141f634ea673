"""The samples that went into a step, in two runs: which, in what order, with what bytes.

Samples are compared by index and by the digest of what the dataset gave, so that the same samples
in another division (into micro-batches, or over another number of ranks) are told from others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.core.samples import SampleRecord

    #: A sample by index and digest; the digest is 0 where there is none.
    Sample = tuple[int, int]

#: Samples named in a sentence.
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleStory:
    """What the records of samples say of a batch that differs.

    Attributes:
        kind: `data`, `rng` or `config`.
        why: One clause.
        sample: Index of the first sample that differs, where one does.
        differs: Whether the loaders delivered other samples, or these otherwise; False where what
            they delivered is equal as far as is known.
    """

    kind: DivergenceKind
    why: str
    sample: int | None = None
    differs: bool = True


def of_step(records: Iterable[SampleRecord], step: int) -> list[SampleRecord]:
    """Return the records of batches that an update used, in order of delivery.

    Records of later epochs are not read: delivery runs ahead of a step by no more than an epoch.
    """
    return [record for record in records if record.step == step]


def samples_of(records: Sequence[SampleRecord]) -> list[Sample] | None:
    """Return the samples of a step in order; None where some batch does not say which it held."""
    found: list[Sample] = []
    for record in records:
        if record.indices is None:
            return None
        digests = record.sample_digests or (0,) * len(record.indices)
        if len(digests) != len(record.indices):
            digests = (0,) * len(record.indices)
        found += zip(record.indices, digests, strict=True)
    return found


def tell_samples(a: Sequence[SampleRecord], b: Sequence[SampleRecord]) -> SampleStory | None:
    """Say what sets the batches of one step apart; None where the records do not tell.

    Args:
        a: Records of A for the step, in order of delivery.
        b: Of B.
    """
    if not a or not b:
        return None
    one, other = samples_of(a), samples_of(b)
    if one is None or other is None:
        return _without_indices(a, b)
    indices = [sample[0] for sample in one], [sample[0] for sample in other]
    if indices[0] == indices[1]:
        return _same_order(a, b, one, other)
    if Counter(indices[0]) == Counter(indices[1]):
        at = _first(indices[0], indices[1])
        return _data("the same samples in another order", indices[0][at])
    if len(one) != len(other):
        return _other_size(*indices, batches=(len(a), len(b)))
    counts = Counter(indices[0]), Counter(indices[1])
    only = [list((counts[n] - counts[1 - n]).elements()) for n in (0, 1)]
    count = "one sample" if len(only[0]) == 1 else f"{len(only[0])} of {len(one)} samples"
    why = f"{count} of the step differs" if len(only[0]) == 1 else f"{count} differ"
    return _data(f"{why}: {_listed(only[0])} in A, {_listed(only[1])} in B", only[0][0])


def _same_order(
    a: Sequence[SampleRecord],
    b: Sequence[SampleRecord],
    one: Sequence[Sample],
    other: Sequence[Sample],
) -> SampleStory:
    streams = [[record.worker_rng for record in side] for side in (a, b)]
    drawn = len(streams[0]) == len(streams[1]) and any(
        x and y and x != y for x, y in zip(*streams, strict=True)
    )
    moved = [x[0] for x, y in zip(one, other, strict=True) if x[1] and y[1] and x[1] != y[1]]
    workers = any(record.worker >= 0 for record in (*a, *b))
    if moved:
        if drawn and workers:
            return SampleStory(
                kind=DivergenceKind.RNG,
                why=f"the same samples, made by a worker with other random streams: "
                f"{len(moved)} differ, {moved[0]} first",
                sample=moved[0],
            )
        noun = "sample" if len(moved) == 1 else "samples"
        return _data(
            f"the same samples, {len(moved)} of {len(one)} with other bytes: {noun} "
            f"{_listed(moved)}",
            moved[0],
        )
    batches = [[record.batch_digest for record in side] for side in (a, b)]
    if len(a) != len(b):
        return SampleStory(
            kind=DivergenceKind.CONFIG,
            why=f"the same samples in {len(a)} batches in A and {len(b)} in B",
        )
    if all(x and y for side in zip(*batches, strict=True) for x in side for y in side):
        if batches[0] == batches[1]:
            return SampleStory(
                kind=DivergenceKind.DATA,
                why="the loader delivered the same bytes in both, and the model was given others: "
                "they changed between delivery and use",
                differs=False,
            )
        return _data("the same samples, put together into other bytes")
    why = "the same samples in the same order, and other bytes"
    return SampleStory(kind=DivergenceKind.DATA, why=why, differs=False)


def _without_indices(a: Sequence[SampleRecord], b: Sequence[SampleRecord]) -> SampleStory | None:
    digests = [[word for record in side for word in record.sample_digests] for side in (a, b)]
    if not all(digests) or digests[0] == digests[1]:
        return None
    if Counter(digests[0]) == Counter(digests[1]):
        return _data("the same samples in another order")
    if len(digests[0]) != len(digests[1]):
        return _other_size(*digests, batches=(len(a), len(b)))
    num = sum(x != y for x, y in zip(*digests, strict=True))
    return _data(f"{num} of {len(digests[0])} samples have other bytes")


def _other_size(a: Sequence[int], b: Sequence[int], *, batches: tuple[int, int]) -> SampleStory:
    sizes = f"{len(a)} samples in A and {len(b)} in B"
    common = min(len(a), len(b))
    same = ", in the same order" if list(a[:common]) == list(b[:common]) else ""
    how = "another batch size"
    if batches[0] != batches[1]:
        how = f"{batches[0]} batches in A and {batches[1]} in B: gradients accumulate otherwise"
    return SampleStory(kind=DivergenceKind.CONFIG, why=f"the step takes {sizes}{same}: {how}")


def _data(why: str, sample: int | None = None) -> SampleStory:
    return SampleStory(kind=DivergenceKind.DATA, why=why, sample=sample)


def _first(a: Sequence[int], b: Sequence[int]) -> int:
    return next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)


def _listed(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:_SHOWN]))
    return f"{shown} and {len(values) - _SHOWN} more" if len(values) > _SHOWN else shown
