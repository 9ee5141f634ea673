"""Compare a recorded call with a repeat of it, and find the first place where they part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.guard.replay.values import differ, on_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.guard.readout import Word
    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replay.repeat import Repeated
    from everybit.guard.replay.trace import Event

    Words = Sequence[Word | None]
    Side = CallRecord | Repeated
    #: A gradient that leaves a call: number of the backward pass, place of the node, its edge.
    Contribution = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a repeat parts from the call first.

    Attributes:
        link: `forward` or `grad`.
        module: The first part that computed something else from the same; "" for the module that
            was called, where its own code did.
        operation: Of autograd, in the backward pass (`AddmmBackward0`).
        event: Place of the part's event, None where no part shows it.
        outputs: Places of the differing output tensors.
        contributions: The differing gradients that leave the call.
    """

    link: Link
    module: str
    operation: str = ""
    event: int | None = None
    outputs: tuple[int, ...] = ()
    contributions: tuple[Contribution, ...] = ()


def read_all(*sides: Side) -> None:
    """Bring the digest words of calls and repeats to the host, with one transfer a device."""
    lists = [words for side in sides for words in _lists_of(side)]
    read = iter(on_host([word for words in lists for word in words]))
    for words in lists:
        words[:] = [next(read) for _ in words]


def compare(record: CallRecord, repeated: Repeated) -> Difference | None:
    """Return where a repeat parts from the call; None where everything that leaves it agrees.

    What leaves a call are its outputs, and the gradients that it gives to parameters and inputs.
    A part whose output differs while nothing that leaves the call does is no difference.
    """
    read_all(record, repeated)
    outputs = tuple(
        place
        for place, (one, other) in enumerate(
            zip(record.output_words, repeated.output_words, strict=True)
        )
        if differ(one, other)
    )
    contributions = tuple(_differing_contributions(record, repeated))
    if not outputs and not contributions:
        return None
    event = first_event(record.events, repeated.events)
    if outputs or event is not None:
        return Difference(
            link=Link.FORWARD,
            module="" if event is None else _to_blame(record.events, event),
            event=event,
            outputs=outputs,
            contributions=contributions,
        )
    module, operation = _first_node(record, repeated)
    return Difference(
        link=Link.GRAD, module=module, operation=operation, contributions=contributions
    )


def agree(one: Repeated, other: Repeated) -> bool:
    """Whether two repeats gave the same outputs and gradients."""
    read_all(one, other)
    if _differs(one.output_words, other.output_words) or one.words.keys() != other.words.keys():
        return False
    return not any(
        place in other.words[number] and _differs(words, other.words[number][place])
        for number, mine in one.words.items()
        for place, words in mine.items()
    )


def first_event(one: Sequence[Event], other: Sequence[Event]) -> int | None:
    """Return the place of the first event whose digests differ."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if (mine.name, mine.comes_out) != (theirs.name, theirs.comes_out):
            return None  # Other parts were called: nothing can be said about which is wrong.
        if _differs(mine.words, theirs.words):
            return place
    return None


def _to_blame(events: Sequence[Event], place: int) -> str:
    """Return the part whose own code stands before an event.

    Where tensors come out of a part, it is that part. Where they go into one, the code of the part
    around it has just run.
    """
    event = events[place]
    if event.comes_out:
        return event.name
    open_: list[str] = []
    for earlier in events[:place]:
        if earlier.comes_out:
            while open_ and open_.pop() != earlier.name:
                pass
        else:
            open_.append(earlier.name)
    return open_[-1] if open_ else ""


def _differing_contributions(record: CallRecord, repeated: Repeated) -> Iterator[Contribution]:
    if record.graph is None:
        return
    for number, theirs in repeated.words.items():
        mine = record.passes[number].words
        for place, edge, _, _ in record.graph.out:
            both = place in mine and place in theirs
            if both and differ(mine[place][edge], theirs[place][edge]):
                yield number, place, edge


def _first_node(record: CallRecord, repeated: Repeated) -> tuple[str, str]:
    """Return the part and the operation whose gradients differ first in order of execution."""
    assert record.graph is not None
    for number, theirs in repeated.words.items():
        found = record.passes[number]
        for place in found.order:
            if place in theirs and _differs(found.words[place], theirs[place]):
                return record.owners[place], record.graph.shape.names[place]
    return "", ""


def _differs(one: Words, other: Words) -> bool:
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _lists_of(side: Side) -> Iterator[list[Word | None]]:
    yield side.output_words
    for event in side.events:
        yield event.words
    if hasattr(side, "passes"):
        for found in side.passes.values():
            yield from found.words.values()
    else:
        for words in side.words.values():
            yield from words.values()
