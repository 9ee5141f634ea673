"""What a batch travels in from where it is made to the loop, with what was measured there."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from everybit.core.contents import BatchFacts, SampleWords

if TYPE_CHECKING:
    from everybit.probe.samples.streams import Packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was measured of one batch where it was made.

    Attributes:
        digest: Word of the batch, 0 with none.
        samples: A word a sample, as the data set gave it; empty where it gives whole batches.
        stream_word: A word of the global random streams (torch, NumPy, Python) as the batch was
            begun; 0 with none.
        states: Whole states of the streams behind the batch, where they have moved in a worker.
        worker: The worker, -1 for the process itself.
        fault: Why nothing was measured; "" with none.
        contents: What was seen of the contents; None where nothing could be.
    """

    digest: int = 0
    samples: tuple[int, ...] = ()
    stream_word: int = 0
    states: Packed | None = None
    worker: int = -1
    fault: str = ""
    contents: BatchFacts | None = None


#: The values of what is sent with each batch, in the order of the fields.
_FACTS: Final = attrgetter(*Facts.__slots__)
_CONTENTS: Final = attrgetter(*BatchFacts.__slots__)


class Envelope:
    """A batch and its facts; a queue, and the thread that pins memory, pass it on as it is.

    It is pickled as plain values: what a dataclass with slots does by itself takes several times as
    long, for each batch.
    """

    __slots__ = ("batch", "facts")

    def __init__(self, batch: Any, facts: Facts) -> None:
        self.batch = batch
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.facts
        seen = facts.contents
        words = None if seen is None else seen.samples
        return _received, (
            self.batch,
            _FACTS(facts)[:-1],
            None if seen is None else _CONTENTS(seen)[:-1],
            None if words is None else (words.paths, words.packed),
        )

    def pin_memory(self) -> Envelope:
        """Pin the memory of the batch as torch would have done without the envelope."""
        from torch.utils.data._utils.pin_memory import pin_memory

        pinned = pin_memory(self.batch)  # type: ignore[no-untyped-call]
        return Envelope(pinned, self.facts)


def _received(
    batch: Any,
    measured: tuple[Any, ...],
    seen: tuple[Any, ...] | None,
    words: tuple[tuple[str, ...], bytes] | None,
) -> Envelope:
    samples = None if words is None else SampleWords(paths=words[0], packed=words[1])
    contents = None
    if seen is not None:
        contents = BatchFacts(
            **dict(zip(BatchFacts.__slots__, seen, strict=False)), samples=samples
        )
    facts = Facts(**dict(zip(Facts.__slots__, measured, strict=False)), contents=contents)
    return Envelope(batch, facts)


def opened(value: Any) -> tuple[Any, Facts | None]:
    """Return the batch, and its facts where it came in an envelope."""
    if type(value) is Envelope:
        return value.batch, value.facts
    return value, None
