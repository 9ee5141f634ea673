"""What a diff of runs is given: two sides as plain values and streams, whoever recorded them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from everybit.core.finding import Finding
    from everybit.core.link import Link
    from everybit.core.observation import StepRecord, TensorTable
    from everybit.core.samples import SampleRecord

    #: `(step, what of it changed)` of a recorded configuration, ascending.
    Configurations = Iterable[tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A damaged stretch of a record: the intact steps before and after it, None at an open end."""

    after: int | None
    before: int | None
    what: str

    def covers(self, step: int) -> bool:
        """Whether the record of this step may have been lost here."""
        return (self.after is None or step > self.after) and (
            self.before is None or step < self.before
        )


class SealedStep(NamedTuple):
    """A step that need not be opened where the other side's holds the same.

    Attributes:
        step: Its number.
        body: All that the record holds besides its number, its times and the random streams, byte
            by byte.
        streams: The words of the random streams, by name.
        open: Returns the record (without block sums, and with arrays as digests).
    """

    step: int
    body: bytes
    streams: Mapping[str, int]
    open: Callable[[], StepRecord]


class WholeWords(NamedTuple):
    """Digests of whole tensors that lie in shards.

    Attributes:
        step: The update.
        link: `init` for what the step began with, `update` for what it has left.
        words: By name.
    """

    step: int
    link: Link
    words: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSide:
    """One rank of one run.

    Attributes:
        rank: Its number.
        starts: `(step, tables)` digests outside a step, ascending: link `init`, then `load`.
        steps: Records, ascending by step. Read once.
        reread: Yields the records once more, to look for the state that another run starts from.
        whole: Returns one step's record with its block sums, which `steps` may lack.
        sealed: Yields the records unopened. Where both sides have them and the same `layout`, equal
            bodies are equal records.
        layout: What the bodies mean by the numbers of lists of names.
        attempt: How often the rank was started before.
        step_range: From the first step on record to the last.
        every: Cadence of the recorded steps; 0 where it is not known.
        gaps: Damaged stretches. Where there is any, single tables of other steps may be lost too.
        missed_end: Why steps after the last one on record may have run unrecorded; "" otherwise.
        cut_short: How the run ended before its time, where the record is whole; "" otherwise.
        configurations: Yields the recorded configurations, each time anew.
        samples: Yields the records of delivered batches, each time anew.
        repeats: What proves that this rank computes the same bits again, in words; "" where nothing
            on record does.
        shards: Which part of each parameter the rank holds, by name, where it holds no wholes.
        wholes: Yields digests of whole tensors in shards, ascending by step, each time anew.
    """

    rank: int
    starts: Iterable[tuple[int, tuple[TensorTable, ...]]] = ()
    steps: Iterable[StepRecord] = ()
    reread: Callable[[], Iterable[StepRecord]] | None = None
    whole: Callable[[int], StepRecord | None] | None = None
    sealed: Callable[[], Iterable[SealedStep]] | None = None
    layout: Mapping[int, tuple[Link, tuple[str, ...]]] | None = None
    attempt: int = 0
    step_range: range = range(0)
    every: int = 1
    gaps: tuple[Gap, ...] = ()
    missed_end: str = ""
    cut_short: str = ""
    configurations: Callable[[], Configurations] | None = None
    samples: Callable[[], Iterable[SampleRecord]] | None = None
    repeats: str = ""
    shards: Mapping[str, Any] | None = None
    wholes: Callable[[], Iterator[WholeWords]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSide:
    """One run.

    Attributes:
        name: `A` or `B`.
        path: Its folder, as the user gave it.
        ranks: By number.
        environment: As captured at its start.
        config: Settings it was recorded with.
        command: The script and its arguments.
        findings: Of all ranks, as recorded.
        world_size: Ranks that it ran on; 0 where that is not known.
        read_files: Small files that it read before its first step: see `diff.read_files`.
        evaluates: Whether it trained nothing and answered; None where that is not known.
        label_maps: What its data sets number their labels by, by loader and attribute.
    """

    name: str
    path: str = ""
    ranks: Mapping[int, RankSide]
    environment: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    world_size: int = 0
    read_files: Mapping[str, Any] | None = None
    evaluates: bool | None = None
    label_maps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
