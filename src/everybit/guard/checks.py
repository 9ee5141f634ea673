"""All checks of a Guard, in the order in which they are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.boundary import Boundary
from everybit.core.config import OnFinding
from everybit.core.verdict import Coverage
from everybit.guard.answers import AnswersCheck
from everybit.guard.at_rest import AtRestCheck
from everybit.guard.capsule import Attribution
from everybit.guard.check import Check
from everybit.guard.configuration import ConfigurationCheck
from everybit.guard.contents import contents_checks
from everybit.guard.gradients import Gradients
from everybit.guard.gradients_at_rest import GradientCheck
from everybit.guard.numerics import NumericsCheck
from everybit.guard.read_files import ReadFilesCheck
from everybit.guard.readout import Readout
from everybit.guard.recompute import RecomputeCheck
from everybit.guard.record import RecordCheck
from everybit.guard.rehearsal import checks_of
from everybit.guard.replay.check import ReplayCheck
from everybit.guard.replay.standby import Sensors
from everybit.guard.replicas.check import ReplicaCheck
from everybit.guard.samples.check import SampleCheck
from everybit.guard.samples.losses import LossMemory
from everybit.guard.scene import Scenes
from everybit.guard.scrub import Scrub
from everybit.guard.spot import SpotCheck
from everybit.guard.suspects import Suspects
from everybit.guard.trace import TraceCheck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.observation import TensorTable
    from everybit.core.samples import EpochEnd
    from everybit.guard.moment import Moment
    from everybit.guard.samples.delivery import Delivery, EpochStart
    from everybit.guard.watch import Watch


class Checks:
    """The checks that a configuration asks for.

    Args:
        watch: What is watched: its carried state, which they share, loads and calls.
        config: Settings of the Guard.
        rank: Rank of this process.
        run: The run folder.

    Attributes:
        record: The one that records; the others test.
        trace: The one that records what lies between batch and update.
        configuration: Notes settings of the program as they change.
        scenes: Keeps what is at hand when something is found.
        samples: Keeps account of what loaders deliver.
        skipped: Whether the last step was skipped.
    """

    def __init__(self, watch: Watch, config: Config, rank: int, run: Path) -> None:
        state = watch.state
        readout = Readout()
        heal = config.on_finding in (OnFinding.HEAL, OnFinding.REWIND)
        patient = config.on_finding in (OnFinding.RECORD, OnFinding.WARN)
        gradients = Gradients(state, state.writers, shadow=config.shadow, measure=config.numerics)
        state.measure = config.numerics
        self.record = RecordCheck(state, readout, gradients)
        self.skipped = False
        self._readout = readout
        self._suspects = Suspects(config.suspicions, run, rank)
        self._all: list[Check] = [
            watch.loads,
            AtRestCheck(
                state,
                rank=rank,
                heal=heal,
                patient=patient,
                scrub=Scrub(config.scrub_percent / 100),
            ),
        ]
        # Before numerics: what comes of a batch that is not finite is no news then.
        self._all += contents_checks(config, rank=rank)
        if config.gradients:
            self._all.append(
                GradientCheck(gradients, readout, rank=rank, heal=heal, patient=patient)
            )
        numerics = NumericsCheck(state, readout, gradients, rank=rank, every=config.every)
        if config.numerics:
            self._all.append(numerics)
        if config.spot_checks:
            spot = SpotCheck(
                readout,
                rank=rank,
                heal=heal,
                name_of=state.members.name_of_part,
                parameter_of=state.members.name_of_memory,
            )
            watch.boundaries.around = spot.around
            self._all.append(spot)
        self._all.append(
            RecomputeCheck(rank=rank, every=config.replay_every, name_of=state.members.name_of_part)
        )
        replicas = ReplicaCheck(state, self.record, gradients if config.gradients else None, config)
        self._replay = ReplayCheck(
            rank=rank,
            every=config.replay_every,
            promised=config.is_set("replay_every"),
            preflight=config.preflight,
            audit=replicas.audit.take,
            attribute=Attribution(
                run, config.incident_mb, neighbour=replicas.questions, held=self._note
            ),
        )
        if config.numerics:
            self._replay.listen(
                Sensors(
                    doubts=numerics.doubts,
                    doubts_gradients=numerics.doubts_gradients,
                    words=gradients.all_words,
                    parameters=state.parameters_of,
                )
            )
        self._all.append(self._replay)
        self._all.append(self.record)
        self.trace = TraceCheck(state, readout, watch.fence, config, self.record.calls)
        watch.boundaries.around = self.trace.beside(watch.boundaries.around)
        self.configuration = ConfigurationCheck(state.members)
        self._all += [self.trace, self.configuration]
        self._all.append(replicas)
        self.scenes = Scenes(state, config, lambda: self.record.gathered.losses)
        self._all.append(self.scenes)
        self._all += [AnswersCheck(), ReadFilesCheck()]
        losses = LossMemory(lambda: self.record.gathered.losses, state.members, rank=rank)
        self.samples = SampleCheck(losses, rank=rank)
        self._all += [self.samples, losses]
        self._all += checks_of(run, state, self.record)
        # Asked for each batch: those that have nothing to say are not.
        self._judges = [each for each in self._all if type(each).deliver is not Check.deliver]

    def look(self, boundary: Boundary, moment: Moment) -> list[Finding]:
        """Ask every check at a boundary; at the end of a step, read what they wait for."""
        findings: list[Finding] = []
        for check in self._all:
            found = [self._suspects.noted(each) for each in check(boundary, moment)]
            if found:
                self._note(found, check)
                findings += found
        if boundary is Boundary.STEP_END:
            skipped = moment.skipped
            told = skipped.to(torch.int64) if isinstance(skipped, torch.Tensor) else int(skipped)
            ticket = self._readout.ask([told])
            self._readout.read()
            self.skipped = bool(ticket.words[0])
            finished = replace(moment, skipped=self.skipped)
            for check in self._all:
                judged = [self._replay.told(each) for each in check.finish(finished)]
                findings += [self._suspects.noted(each) for each in judged]
        return findings

    def at_end(self, step: int) -> list[Finding]:
        """Test what can be tested with no step going on."""
        found = [finding for check in self._all for finding in check.at_end(step)]
        return [self._suspects.noted(finding) for finding in found]

    def epoch_start(self, start: EpochStart) -> list[Finding]:
        """Ask every check about a pass that is about to begin."""
        return [finding for check in self._all for finding in check.epoch_start(start)]

    def deliver(self, delivery: Delivery) -> list[Finding]:
        """Ask every check about a batch that the loop is about to get."""
        return [finding for check in self._judges for finding in check.deliver(delivery)]

    def epoch_end(self, end: EpochEnd) -> list[Finding]:
        """Ask every check about a pass that is over."""
        return [finding for check in self._all for finding in check.epoch_end(end)]

    def left(self) -> list[Finding]:
        """Return what checks hold back still."""
        found = [finding for check in self._all for finding in check.left()]
        return [self._suspects.noted(finding) for finding in found]

    def _note(self, found: Sequence[Finding], source: Check | None = None) -> None:
        """Tell the checks what one of them has found, or holds back for now."""
        for check in self._all:
            if check is not source:
                check.note(found)

    def tables(self) -> tuple[TensorTable, ...]:
        """Return the digests of the finished step, in causal order."""
        tables = (*self.trace.tables, *self.record.gathered.tables)
        return tuple(sorted(tables, key=lambda table: table.link.position))

    def scalars(self) -> dict[str, float]:
        """Return the numbers of the finished step."""
        return {name: value for check in self._all for name, value in check.scalars().items()}

    def observed(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what else of the finished step is worth keeping."""
        return [each for check in self._all for each in check.observed()]

    def phase(self, name: str) -> None:
        """Begin a new phase in every check."""
        for check in self._all:
            check.phase(name)

    def hold(self) -> None:
        """Begin a step in every check that may be computed several times."""
        for check in self._all:
            check.hold()

    def put_back(self) -> None:
        """Begin that step anew in every check."""
        for check in self._all:
            check.put_back()

    def let_go(self) -> None:
        """End that step in every check."""
        for check in self._all:
            check.let_go()

    def close(self) -> Coverage:
        """End the checks; return what they say of themselves."""
        for check in self._all:
            check.close()
        return sum((check.coverage() for check in self._all), Coverage())
