"""The Guard: boundaries, checks and a policy, wired together around a training loop."""

from __future__ import annotations

import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from everybit.core.boundary import Boundary
from everybit.core.config import Config, OnFinding
from everybit.core.errors import UsageError
from everybit.core.verdict import Coverage, Skipped, Verdict
from everybit.detect.at_rest import judge_at_rest
from everybit.guard.account import coverage_of
from everybit.guard.at_rest import AtRestCheck
from everybit.guard.boundaries import Boundaries
from everybit.guard.discover import Discovery, roots_of
from everybit.guard.journal import Journal
from everybit.guard.policy import LOGGER, policy_for
from everybit.guard.record import RecordCheck
from everybit.guard.saves import Saves
from everybit.guard.state import CarriedState
from everybit.guard.writers import Writers
from everybit.host import capture_environment
from everybit.ledger import EndReason, RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.damage import Damage
    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment


class Guard:
    """Watch a training loop: record its chain, test what is carried from step to step.

    Args:
        *watched: Root modules and optimizers. With none, they are found when an optimizer is built
            while the Guard is active.
        run: Run folder; `everybit-runs/<time>-<script>` where None.
        every: Check and record every N-th step.
        on_finding: `record`, `warn`, `stop` (raises `StoppedError`) or `heal`.
        shadow: Keep a copy of weights and optimizer state, so that any damage can be healed.
        config: Takes the place of the four settings above.

    Raises:
        UsageError: Something else than a module or an optimizer was given.
        ConfigError: A setting is not possible.
        PathError: (on entering) the run folder cannot be written.

    Example:
        with everybit.Guard(model, optimizer, run="runs/a"):
            train()
    """

    def __init__(
        self,
        *watched: torch.nn.Module | torch.optim.Optimizer,
        run: str | os.PathLike[str] | None = None,
        every: int = 1,
        on_finding: str = "warn",
        shadow: bool = False,
        config: Config | None = None,
    ) -> None:
        settings = {"every": every, "on_finding": on_finding, "shadow": shadow}
        self.config = config or Config().updated(settings, where="Guard")
        self.path = Path(run or self.config.run or default_folder())
        self.coverage: Coverage | None = None
        self.stats: dict[str, Any] = {}
        policy = self.config.on_finding
        self._writers = Writers()
        self._state = CarriedState(self._writers, shadow=self.config.shadow)
        self._at_rest = AtRestCheck(
            self._state,
            heal=policy is OnFinding.HEAL,
            patient=policy in (OnFinding.RECORD, OnFinding.WARN),
        )
        self._record = RecordCheck(self._state)
        self._act = policy_for(policy)
        self._boundaries = Boundaries(self._reach, self._wants)
        self._saves = Saves(self._before_save)
        self._discovery = None if watched else Discovery(self._watch, self._rewrap)
        self._journal: Journal | None = None
        self._marked = False
        self._fault = ""
        self._saved_at = -1
        self._rank = int(os.environ.get("RANK", "0"))
        for item in watched:
            self._watch(item)

    @property
    def step(self) -> int:
        """Updates finished or skipped so far, over all optimizers."""
        return self._boundaries.step

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far."""
        return tuple(self._journal.findings) if self._journal else ()

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
        if self._marked:
            self._state.mark_all()

    def __enter__(self) -> Self:
        writer = RunWriter.open(
            self.path,
            rank=self._rank,
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
            command=[sys.executable, *sys.argv],
            environment=capture_environment(),
            config=asdict(self.config),
        )
        self._journal = Journal(writer)
        self._boundaries.install()
        self._writers.install()
        if self._discovery is not None:
            self._discovery.install()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is None:
            self._fenced(self._final_test)
        self._remove()
        if error is None:
            self.close(EndReason.CLEAN)
        elif isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            self.close(EndReason.EXIT if code else EndReason.CLEAN, code)
        else:
            self.close(EndReason.EXCEPTION, 1, f"{kind.__name__}: {error}")

    def close(self, reason: EndReason, code: int = 0, detail: str = "") -> None:
        """Write coverage and end record; called by leaving the Guard, and by a signal handler."""
        if self._journal is None or self.coverage is not None:
            return
        self.coverage, self.stats = self._journal.close(
            reason,
            code,
            detail,
            coverage=coverage_of(
                self._state,
                self._record,
                num_steps=self._journal.num_steps,
                num_calls=self._boundaries.num_calls,
                config=self.config,
                fault=self._fault,
            ),
            stats={"tensors": self._state.num_tensors, "bytes": self._state.num_bytes},
        )

    def _remove(self) -> None:
        if self._discovery is not None:
            self._discovery.remove()
        self._saves.remove()
        self._boundaries.remove()
        self._writers.remove()

    def _watch(self, item: torch.nn.Module | torch.optim.Optimizer) -> None:
        """Take up a module or optimizer; where nothing was given, an optimizer's modules too."""
        if isinstance(item, torch.optim.Optimizer):
            self._state.add_optimizer(item)
            if self._discovery is not None:
                for root in roots_of(item):
                    self._watch(root)
        elif isinstance(item, torch.nn.Module):
            for old in self._state.add_root(item):
                self._boundaries.detach(old)
            self._boundaries.attach(item)
        else:
            raise UsageError(
                f"a {type(item).__name__} is neither a module nor an optimizer",
                where="Guard",
                todo="give it the model and the optimizers, or nothing to have them found",
            )
        self._saves.watch(item)
        self._marked = False

    def _rewrap(self, wrapper: torch.nn.Module) -> None:
        """Take up a wrapper put around a root."""
        inside = set(wrapper.modules())
        if any(root in inside for root, _ in self._state.roots):
            self._watch(wrapper)

    def _wants(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer that steps is one of this loop's."""
        if self._state.name_of(optimizer) is None:
            if self._discovery is None and not self._state.owns(optimizer):
                return False
            self._watch(optimizer)
        return True

    def _is_checked(self, step: int) -> bool:
        return step % self.config.every == 0

    def _reach(self, boundary: Boundary, moment: Moment) -> None:
        """Carry out the checks at a boundary, then the policy."""
        findings = self._fenced(self._look, boundary, moment)
        if findings:
            self._act(findings)

    def _fenced(self, look: Callable[..., list[Finding] | None], *args: Any) -> list[Finding]:
        """Call `look`; a fault of the Guard's own ends the checks and never the job."""
        if self._fault or self._journal is None or self.coverage is not None:
            return []
        began = time.perf_counter()
        try:
            with torch.no_grad():
                return look(*args) or []
        except Exception as error:
            self._fault = f"{type(error).__name__}: {error}"
            LOGGER.warning(
                "everybit: a fault of its own ended the checks, the job goes on; %s", self._fault
            )
            LOGGER.debug("%s", traceback.format_exc())
            return []
        finally:
            self._journal.spent_s += time.perf_counter() - began

    def _look(self, boundary: Boundary, moment: Moment) -> list[Finding]:
        step = moment.step
        next_checked = self._is_checked(step + 1)
        if not self._is_checked(step):
            if boundary is Boundary.STEP_END and next_checked:
                self._state.mark_all()
            return []
        findings = [] if self._ready(boundary, moment) else self._tested(boundary, moment)
        self._record(boundary, moment)
        if boundary is Boundary.STEP_END:
            self._write_step(moment)
            if self.config.every > 1 and next_checked:
                self._state.mark_all()
        return findings

    def _ready(self, boundary: Boundary, moment: Moment) -> bool:
        """Mark what has not been marked yet; whether there was anything to mark."""
        if self._marked or boundary in (Boundary.FORWARD_END, Boundary.BACKWARD_END):
            return False
        self._state.mark_all()
        self._marked = True
        assert self._journal is not None
        self._journal.initial(moment.step, self._record.initial())
        return boundary is not Boundary.STEP_END

    def _tested(self, boundary: Boundary, moment: Moment) -> list[Finding]:
        return self._judged(self._at_rest(boundary, moment), moment.step)

    def _judged(self, found: list[tuple[Damage, bool]], step: int) -> list[Finding]:
        assert self._journal is not None
        findings = []
        for damage, tainted in found:
            finding = judge_at_rest(damage, step=step, rank=self._rank, tainted=tainted)
            self._journal.finding(finding, tainted=tainted)
            findings.append(finding)
        return findings

    def _write_step(self, moment: Moment) -> None:
        assert self._journal is not None
        self._journal.step(
            moment.step,
            optimizer=self._state.name_of(moment.optimizer) or "",
            skipped=bool(moment.skipped),
            losses=self._record.losses(),
            tables=self._record.tables(),
        )

    def _final_test(self) -> list[Finding]:
        if not self._marked or not self._is_checked(self.step):
            return []
        return self._judged(self._at_rest.test_everything(), self.step)

    def _before_save(self) -> None:
        # Once a step: some loops take a state_dict at every one.
        if self._saved_at != self.step and not self._boundaries.inside:
            self._saved_at = self.step
            findings = self._fenced(self._final_test)
            if findings:
                self._act(findings)


def default_folder(script: str = "") -> str:
    """Return the run folder for a run that names none: `everybit-runs/<time>-<script>`."""
    name = Path(script or sys.argv[0] or "session").stem or "session"
    return f"everybit-runs/{time.strftime('%Y%m%d-%H%M%S')}-{name}"
