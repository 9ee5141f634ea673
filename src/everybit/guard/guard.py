"""The Guard: boundaries, checks and a policy, wired together around a training loop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from everybit.core.config import Config
from everybit.core.errors import StoppedError, UsageError
from everybit.core.verdict import Coverage, Skipped, Verdict
from everybit.guard.account import coverage_of, stats_of
from everybit.guard.checks import Checks
from everybit.guard.course import Course
from everybit.guard.fence import Fence
from everybit.guard.following import Following
from everybit.guard.heartbeat import Heartbeat
from everybit.guard.meeting import rank_here
from everybit.guard.rehearsal import place_of, rehearsed
from everybit.guard.response import Response
from everybit.guard.samples import Data
from everybit.guard.stepping import StepCount, Stepping
from everybit.guard.uncompiled import keep_uncompiled
from everybit.guard.watch import Watch
from everybit.guard.worker_errors import DeathsLater, is_cut_off
from everybit.host import capture_environment
from everybit.ledger import EndReason, RunWriter, end_after
from everybit.ledger.default_folder import default_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    import torch

    from everybit.core.finding import Finding


class Guard(Following):
    """Watch a training loop: record its chain, test what is carried from step to step.

    Args:
        *watched: Root modules and optimizers. With none, they are found when an optimizer is built
            while the Guard is active.
        run: Run folder; `everybit-runs/<time>-<script>` where None.
        callbacks: Functions that are called with each `Finding`, in the thread that found it.
        config: Settings to begin with; where None, those of environment and configuration file.
        **settings: Settings by name, as in docs/configuration.md: `every=10` checks and records
            every 10th step; `on_finding` is `record`, `warn` (the default), `pause`, `stop`
            (raises `StoppedError` out of the loop), `heal` or `rewind`; `shadow=True` keeps copies,
            so that damage of any size can be healed.

    Raises:
        UsageError: Something else than a module or an optimizer was given.
        ConfigError: A setting is not possible.
        PathError: (on entering) the run folder cannot be written.

    Example::

        with everybit.Guard(model, optimizer, run="runs/a"):
            train()
    """

    def __init__(
        self,
        *watched: torch.nn.Module | torch.optim.Optimizer,
        run: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callable[[Finding], object]] = (),
        config: Config | None = None,
        **settings: Any,
    ) -> None:
        self.config = rehearsed((config or Config.load()).updated(settings, where="Guard"))
        self.path = place_of(Path(run or self.config.run or default_folder()))
        self.coverage: Coverage | None = None
        self.stats: dict[str, Any] = {}
        self._rank, self._world_size = rank_here()
        self._fence = Fence()
        self._watch = Watch(
            watched,
            shadow=self.config.shadow,
            reach=lambda boundary, moment: self._course.reach(boundary, moment),
            before_save=lambda whole: self._course.before_save(whole),
            fence=self._fence,
        )
        self._checks = Checks(self._watch, self.config, self._rank, self.path)
        self._response = Response(self.config, self._checks.scenes, self._fence, callbacks)
        self._course = Course(self.config, self._watch, self._checks, self._response, self._fence)
        self._watch.state.before_loss(self._course.before_loss)
        self._data = Data(
            self._course,
            self._watch,
            self._checks.samples,
            self._fence,
            rank=self._rank,
            active=self.config.samples,
        )
        self._stepping = Stepping(
            self.config,
            self._watch,
            self._checks,
            self._response,
            self._course,
            self._fence,
            rank=self._rank,
        )
        self._heartbeat = Heartbeat(
            lambda seconds: self._course.record.observe(
                "stood-still", int(self.step), seconds=seconds
            ),
            least_s=self.config.patience_s,
        )

    @property
    def step(self) -> StepCount:
        """Updates finished or skipped so far, over all optimizers; called, it computes a step.

        `guard.step(fn, batch)` returns what `fn(batch)` does: a whole step, from zero_grad to the
        update. It can be computed again there, to test it and to undo what went wrong in it: see
        docs/rewind.md.
        """
        return self._stepping.count()

    def carry(self, *items: Any) -> None:
        """Name what `guard.step(fn)` changes beside modules, optimizers and their schedulers.

        Args:
            *items: Modules, or objects with `state_dict` and `load_state_dict`: an average of
                weights kept by hand, a sampler.

        Raises:
            UsageError: Something else was given.
        """
        self._stepping.carry(*items)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far."""
        return tuple(self._course.journal.findings) if self._course.journal else ()

    @property
    def verdict(self) -> Verdict:
        """The verdict so far; whole once the Guard has been left."""
        going = Skipped(what="the rest of the run", why="it is still going")
        return Verdict(
            command="run",
            target=(str(self.path),),
            findings=self.findings,
            coverage=self.coverage or Coverage(skipped=(going,)),
            stats=self.stats,
        )

    def rebaseline(self) -> None:
        """Accept the carried state as it is: something wrote to it on purpose, past torch."""
        self._fence(self._watch.state.mark_all)

    def phase(self, name: str) -> None:
        """Begin a new phase of the run: other data, another task, another learning rate.

        What the sensors took for usual (the band of the loss, of the gradients) is forgotten.

        Args:
            name: For the record and the report.
        """
        self._fence(self._course.begin_phase, name)

    def __enter__(self) -> Self:
        if self._course.journal is not None:
            raise UsageError("a Guard watches once", where="Guard", todo="make a new one")
        writer = RunWriter.open(
            self.path,
            rank=self._rank,
            world_size=self._world_size,
            command=[sys.executable, *sys.argv],
            environment=capture_environment(),
            config=self.config.recorded(),
        )
        self._course.journal = self._response.open(writer)
        self._fence.open(self._course.journal)
        self._heartbeat.start(self._world_size)
        keep_uncompiled(Fence.__call__)
        try:
            self._watch.install()
            self._data.install()
        except Exception as error:
            self._fence.give_up(error)
            self._watch.remove()
            self._data.remove()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _trace: Any) -> None:
        stopped = None
        with DeathsLater() as deaths:
            if error is None or isinstance(error, SystemExit):
                try:
                    self._course.test()
                    self._stepping.leave()
                    self._response.finish()
                except StoppedError as stop:
                    stopped = stop
            try:
                self._fence(self._data.close, error)
                late = deaths.error()
            except RuntimeError as raised:  # torch's, of a worker: it found the death by itself.
                late = raised
            self._data.remove()
            self._watch.remove()
            end = end_after(stopped or error or late)
            self.close(end.reason, end.code, end.told)
        if stopped is not None:
            raise stopped
        if late is not None and (error is None or is_cut_off(error)):
            raise late from error

    def close(self, reason: EndReason, code: int = 0, detail: str = "") -> None:
        """Write coverage and the end record: on leaving the Guard, or from a signal's handler."""
        journal = self._course.journal
        if journal is None or self.coverage is not None or not self._fence.is_ours:
            return
        self._response.record(self._fence(self._checks.left) or [])
        self._fence(self._course.keep_observed, self._course.step)
        self._fence.close()
        self._heartbeat.stop()
        state = self._watch.state
        self.coverage, self.stats = journal.close(
            reason,
            code,
            detail,
            coverage=coverage_of(
                state,
                self._checks.record,
                num_steps=journal.num_steps,
                num_calls=self._watch.boundaries.num_calls,
                config=self.config,
                fault=self._fence.fault,
            )
            + self._checks.close()
            + self._stepping.close()
            + self._response.close(),
            stats={
                **stats_of(state),
                **self._checks.trace.stats(),
                "stopped": reason is EndReason.STOPPED,
            },
        )
        self._response.say(self.verdict)
