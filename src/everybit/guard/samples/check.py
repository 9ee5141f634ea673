"""The check on samples: each delivered batch against what the sampler promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.order_differs import OrderJudge
from everybit.detect.resume_misaligned import judge_resume
from everybit.detect.sample_missing import judge_lost, judge_missing
from everybit.detect.sample_repeated import RepeatJudge
from everybit.detect.worker_died import judge_workers
from everybit.guard.check import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd
    from everybit.guard.samples.delivery import Delivery
    from everybit.guard.samples.losses import LossMemory
    from everybit.guard.samples.passing import Pass
    from everybit.guard.samples.resume import Plan


class SampleCheck(Check):
    """Keeps account of the samples of every loader that is followed.

    Args:
        losses: Remembers the last losses, for a checkpoint.
        rank: Rank of this process.
    """

    def __init__(self, losses: LossMemory, *, rank: int) -> None:
        self.losses = losses
        self._rank = rank
        self._repeats: dict[str, RepeatJudge] = {}
        self._orders: dict[str, OrderJudge] = {}
        self._told: set[tuple[str, int]] = set()
        self._dead: set[tuple[str, int]] = set()
        self._num_batches = 0
        self._num_samples = 0
        self._num_epochs = 0
        self._skipped: dict[tuple[str, str], bool] = {}
        self._plans: dict[str, Plan] = {}
        self._lost: list[int] = []
        self._failed: tuple[int, ...] = ()
        self._misfits: list[Finding] = []

    def deliver(self, delivery: Delivery) -> Sequence[Finding]:
        """Judge a batch before the loop gets it."""
        record, promise = delivery.record, delivery.promise
        self._num_batches += 1
        self._num_samples += record.num_samples
        found = [*self._misfits, *self._resumed(delivery)]
        self._misfits.clear()
        repeats, order = self._repeats.get(record.loader), self._orders.get(record.loader)
        if repeats is None or order is None:
            repeats = self._repeats[record.loader] = RepeatJudge()
            order = self._orders[record.loader] = OrderJudge()
        judged = [
            repeats.judge(record, promise, expected=delivery.expected),
            order.judge(record, promise, expected=delivery.expected, epoch_set=delivery.epoch_set),
        ]
        for finding in judged:
            # One damage is one finding: a sample in another's place is repeated, too.
            if finding is not None and (record.loader, record.epoch) not in self._told:
                self._told.add((record.loader, record.epoch))
                found.append(finding)
        return found

    def epoch_end(self, end: EpochEnd) -> Sequence[Finding]:
        """Judge a pass that is over."""
        found = self._ended(end)
        if end.loader in self._repeats:
            self._repeats[end.loader].ended(end.epoch)
        return found

    def at_end(self, step: int) -> Sequence[Finding]:
        """Tell of loaders that could not go on and delivered nothing since."""
        found, self._misfits = self._misfits, []
        return found

    def lost(self, keys: Sequence[int], current: Pass) -> None:
        """Take note, before `epoch_end`, of what was asked for and has not come."""
        self._lost = list(keys)
        self._failed = current.failed

    def workers(
        self, workers: Sequence[Any], current: Pass, *, loader: str, step: int, error: BaseException
    ) -> list[Finding]:
        """Say which workers died, where that is why a batch does not come."""
        exits = {
            number: each.exitcode
            for number, each in enumerate(workers)
            if getattr(each, "exitcode", None)
        }
        if (loader, current.number) in self._dead:
            return []
        waiting = {worker: len(asked) for worker, asked in current.sent.items()}
        finding = judge_workers(
            exits,
            loader=loader,
            epoch=current.number,
            delivered=current.delivered,
            waiting=waiting,
            step=step,
            rank=self._rank,
            error=str(error),
        )
        if finding is not None:
            self._dead.add((loader, current.number))
        return [] if finding is None else [finding]

    def resuming(self, loader: str, plan: Plan) -> None:
        """Take note that a loader goes on from a saved position."""
        if plan.live:
            self._plans[loader] = plan

    def cannot_resume(self, loader: str, why: str) -> None:
        """Take note that a loader is another one than the saved one of its name."""
        self._misfits.append(
            judge_resume([f"it is not the loader that was saved: {why}"], loader, rank=self._rank)
        )

    def never_resumed(self, loader: str) -> None:
        """Take note that no loader took up a saved position."""
        why = "no loader that fits it was iterated since"
        self._skipped[(f"saved position of {loader}", why)] = True

    def cannot_follow(self, loader: str, why: str) -> None:
        """Take note of what is not known of a loader."""
        self._skipped.setdefault((f"samples of {loader}", why), False)

    def coverage(self) -> Coverage:
        """Return what was accounted for and what could not be."""
        checked = [
            Checked(what="batches delivered", count=self._num_batches),
            Checked(what="samples accounted for", count=self._num_samples),
            Checked(what="epochs seen whole", count=self._num_epochs),
        ]
        skipped = [
            Skipped(what=what, why=why, promised=promised)
            for (what, why), promised in self._skipped.items()
        ]
        for loader, judge in self._repeats.items():
            if judge.unknown:
                skipped.append(
                    Skipped(
                        what=f"repeats and misses of {loader}", why=judge.unknown, promised=False
                    )
                )
        return Coverage(
            checked=tuple(each for each in checked if each.count), skipped=tuple(skipped)
        )

    def _ended(self, end: EpochEnd) -> Sequence[Finding]:
        self._num_epochs += end.whole
        repeats = self._repeats.get(end.loader)
        lost, self._lost = self._lost, []
        failed, self._failed = self._failed, ()
        order = self._orders.get(end.loader)
        same = order.ended(end.epoch, whole=end.whole) if order is not None else None
        if (end.loader, end.epoch) in self._told or repeats is None:
            return ()
        finding = None
        if lost:
            finding = judge_lost(lost, end, rank=self._rank)
        elif repeats.is_whole(end.epoch):
            finding = judge_missing(repeats.seen, end, rank=self._rank, failed=failed)
        finding = finding or same
        return [] if finding is None else [finding]

    def _resumed(self, delivery: Delivery) -> list[Finding]:
        if not delivery.resumed:
            return []
        record = delivery.record
        plan = self._plans.pop(record.loader, None)
        if plan is not None and plan.unproven:
            self._skipped[f"place that {record.loader} goes on from", plan.unproven] = True
        if plan is None or not plan.problems:
            return []
        return [
            judge_resume(
                plan.problems,
                record.loader,
                rank=self._rank,
                step=delivery.step,
                epoch=record.epoch,
                batch=record.batch,
            )
        ]
