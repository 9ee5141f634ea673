"""The contents of batches, judged as they are delivered and as the model gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.handle_shared import Handle, judge_handles
from everybit.detect.pairing_broken import PairingBroken
from everybit.detect.sample_swallowed import Swallowed
from everybit.detect.worker_streams import WorkerStreams
from everybit.guard.check import Check
from everybit.guard.contents.across import Across
from everybit.guard.contents.delivered import Delivered
from everybit.guard.contents.followed import FollowedLoader
from everybit.guard.contents.memory import id_types
from everybit.guard.contents.pauses import Pauses
from everybit.guard.samples.delivery import EpochStart
from everybit.probe.contents import survey
from everybit.probe.contents.handles import kind_of, name_of, positions
from everybit.probe.contents.labels import shift_of
from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd
    from everybit.guard.moment import Moment
    from everybit.guard.samples.delivery import Delivery

#: Batches of a pass after which the positions of open files are looked at.
HANDLE_BATCHES: Final = (0, 1, 3, 7, 15, 31, 63)
#: Batches of a pass whose labels are compared with the data set's own list.
LABEL_BATCHES: Final = 2
#: Lists that serve as data sets of which words are kept: when one is gone cannot be known.
MAX_LISTS: Final = 16


class ContentsCheck(Check):
    """Judge what is in the batches.

    Args:
        rank: Rank of this process.

    Attributes:
        delivered: The last batches, for whoever asks which one a tensor is of.
        id_types: Types of the arrays of ids that data sets hold, by path.
    """

    def __init__(self, *, rank: int) -> None:
        self.delivered = Delivered()
        self.id_types: dict[str, str] = {}
        self._rank = rank
        self._streams = WorkerStreams()
        self._swallowed = Swallowed()
        self._pairing = PairingBroken()
        self._across = Across(rank=rank)
        self._pauses = Pauses(rank=rank)
        self._loaders: dict[str, FollowedLoader] = {}
        self._begun: dict[str, int] = {}
        self._num_batches = 0
        self._unseen: dict[str, str] = {}

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Test the batch that a model gets."""
        if boundary is not Boundary.FORWARD_START or not self._num_batches:
            return ()
        return self.delivered.use(moment.args, moment.kwargs, moment.step)

    def epoch_start(self, start: EpochStart) -> Sequence[Finding]:
        """Look at a data set before its workers are made."""
        self._begun[start.loader] = start.epoch
        found = survey(start.dataset)
        self._let_go()
        known = self._loaders.get(start.loader)
        if known is None:
            known = self._loaders[start.loader] = FollowedLoader(start.promise.length)
        known.begins(start, found)
        self.id_types |= {
            f"{start.loader} {path}": dtype for path, dtype in id_types(found.arrays).items()
        }
        findings = self._across.maps(start.loader, found.maps, step=start.step)
        # Told at once: the first step then waits for all ranks, and the first one can compare.
        findings += self._across.poll(step=start.step)
        findings += self._pauses.begins(start)
        return findings

    def deliver(self, delivery: Delivery) -> Sequence[Finding]:
        """Judge a batch before the loop gets it."""
        record = delivery.record
        facts = delivery.facts.contents if delivery.facts is not None else None
        self._num_batches += 1
        findings = self._late_start(delivery)
        self._pauses.delivers(record)
        findings += self.delivered.deliver(record, delivery.batch, facts)
        known = self._loaders.get(record.loader)
        shift = 0
        if known is not None:
            known.last = record
            if facts is not None:
                known.read(delivery, facts)
                shift = self._shift(known, delivery)
            if known.handles:
                findings += self._look_at_handles(known, delivery, seen=facts is not None)
        if facts is None:
            self._unseen[record.loader] = "its batches are made past the loader's collate function"
            return findings
        # Nearly always there is nothing to judge: that costs no call.
        if facts.streams:
            findings += self._streams.judge(record, facts, reshuffles=delivery.promise.shuffle)
        if facts.stand_ins or facts.absent or facts.truncated:
            findings += self._swallowed.judge(record, facts)
        if facts.pairing is not None or shift:
            findings += self._pairing.judge(record, facts, shift=shift)
        findings += self._across.streams(record, facts)
        return findings

    def epoch_end(self, end: EpochEnd) -> Sequence[Finding]:
        """Judge what is known once a pass is over."""
        self._pauses.ends(end)
        known = self._loaders.get(end.loader)
        findings = self._across.ended(end)
        if known is None or known.last is None:
            return findings
        findings += known.ends()
        if known.handles_errors and end.epoch == 0 and not known.book.num_drawn:
            findings += self._swallowed.judge_twins(
                known.last, known.book.twins(), num_read=known.book.num_read
            )
        return findings

    def observed(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return label maps that are new."""
        new, self._across.observed = self._across.observed, []
        return new

    def at_end(self, step: int) -> Sequence[Finding]:
        """Hear what other ranks have told."""
        return self._across.poll(step=step)

    def coverage(self) -> Coverage:
        """Return how many batches were looked at, and what could not be compared."""
        if not self._num_batches:
            return Coverage()
        checked = [Checked(what="batches' contents", count=self._num_batches)]
        skipped = [
            Skipped(what=f"contents of {name}'s batches", why=why, promised=False)
            for name, why in self._unseen.items()
        ]
        for name, known in self._loaders.items():
            if known.book.num_compared:
                what = f"samples of {name} read again"
                checked.append(Checked(what=what, count=known.book.num_compared))
            if known.book.unsettled or known.book.num_drawn:
                why = known.book.unsettled or (
                    f"{known.book.num_drawn} were read while a random stream was drawn from"
                )
                what = f"bytes of {name}'s samples when read again"
                skipped.append(Skipped(what=what, why=why, promised=False))
        if self.delivered.num_used:
            checked.append(Checked(what="inputs as delivered", count=self.delivered.num_used))
        if self.delivered.num_in_part:
            why = f"of {self.delivered.num_in_part} large batches parts were compared"
            what = "bytes of inputs between delivery and use"
            skipped.append(Skipped(what=what, why=why, promised=False))
        if self._across.failure:
            why = self._across.failure
            skipped.append(Skipped(what="ranks' streams and labels", why=why, promised=False))
        return Coverage(checked=tuple(checked), skipped=tuple(skipped))

    def _late_start(self, delivery: Delivery) -> list[Finding]:
        """Take the beginning of a pass that was not seen: its iterator is older than the Guard."""
        record = delivery.record
        if self._begun.get(record.loader) == record.epoch or delivery.loader is None:
            return []
        start = EpochStart(
            loader=record.loader,
            epoch=record.epoch,
            source=delivery.loader,
            dataset=delivery.dataset,
            promise=delivery.promise,
            step=delivery.step,
        )
        return list(self.epoch_start(start))

    def _look_at_handles(
        self, known: FollowedLoader, delivery: Delivery, *, seen: bool
    ) -> list[Finding]:
        promise, record = delivery.promise, delivery.record
        if promise.num_workers < 2 or promise.method not in ("fork", ""):
            return []
        if record.batch not in HANDLE_BATCHES:
            return []
        handles = {
            path: handle
            for path, held in known.handles.items()
            # Of batches that are made past us it is not known who reads through what.
            if (handle := held()) is not None and (not seen or len(known.readers.get(path, ())) > 1)
        }
        now = positions(handles)
        if None in now.values():
            why = "positions of open files cannot be read on this system"
            self._unseen.setdefault(record.loader, why)
        open_now = [
            Handle(
                path=path,
                kind=kind_of(handle),
                name=name_of(handle),
                moved=now.get(path) is not None and now[path] != known.at.get(path),
            )
            for path, handle in handles.items()
            if path not in known.told
        ]
        found = judge_handles(
            open_now,
            loader=record.loader,
            epoch=record.epoch,
            num_workers=promise.num_workers,
            step=delivery.step,
            rank=self._rank,
        )
        known.told |= {finding.evidence["attribute"] for finding in found}
        return found

    def _let_go(self) -> None:
        """Keep nothing of data sets that are gone, nor of more than some lists."""
        lists = [known for known in self._loaders.values() if known.cannot_go]
        for known in self._loaders.values():
            if known.is_gone:
                known.let_go()
        for known in lists[:-MAX_LISTS]:
            known.let_go()

    def _shift(self, known: FollowedLoader, delivery: Delivery) -> int:
        if known.num_labelled >= LABEL_BATCHES:
            return 0
        indices = delivery.record.indices
        if indices is None or delivery.record.hashed:
            return 0
        known.num_labelled += 1
        labels = known.labels
        if labels is None or max(indices, default=0) >= len(labels):
            return 0
        leaves = [leaf for _, leaf in flatten(delivery.batch)]
        if len(leaves) != 2 or getattr(leaves[1], "ndim", 0) != 1:
            return 0
        return shift_of([float(value) for value in leaves[1].tolist()], indices, labels)
