"""What is measured where a batch is made, which may be a worker process.

Law: nothing is drawn, nothing is consumed, and the batch that the loop gets is the one that the
program's own `collate_fn` returned.
"""

from everybit.probe.samples.collating import Collating, begin_of
from everybit.probe.samples.envelope import Envelope, Facts, opened
from everybit.probe.samples.streams import (
    Packed,
    States,
    dataset_generators,
    generator_states,
    restore_states,
    stream_states,
)

__all__ = [
    "Collating",
    "Envelope",
    "Facts",
    "Packed",
    "States",
    "begin_of",
    "dataset_generators",
    "generator_states",
    "opened",
    "restore_states",
    "stream_states",
]
