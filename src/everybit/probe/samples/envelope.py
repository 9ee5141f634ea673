"""What a batch travels in from where it is made to the loop, with what was measured there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.core.contents import BatchFacts
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


class Envelope:
    """A batch and its facts; a queue, and the thread that pins memory, pass it on as it is."""

    __slots__ = ("batch", "facts")

    def __init__(self, batch: Any, facts: Facts) -> None:
        self.batch = batch
        self.facts = facts

    def pin_memory(self) -> Envelope:
        """Pin the memory of the batch as torch would have done without the envelope."""
        from torch.utils.data._utils.pin_memory import pin_memory

        pinned = pin_memory(self.batch)  # type: ignore[no-untyped-call]
        return Envelope(pinned, self.facts)


def opened(value: Any) -> tuple[Any, Facts | None]:
    """Return the batch, and its facts where it came in an envelope."""
    if type(value) is Envelope:
        return value.batch, value.facts
    return value, None
