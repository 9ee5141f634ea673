"""`everybit diff A B --zoom`: compute the step at which two runs part again, and look closely.

The program of each run that can run here is run again, up to that step and beside the first run's
files. Where it gives the recorded bits again, its operations are put side by side with the other's:
the first that reads or gives other bits is the cause, and it is computed once more from equal
inputs, under both settings, by other threads and kernels, and in float64.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.api.zoom_capsule import try_capsules
from everybit.api.zoom_side import CannotRunError, Program, find_program_of
from everybit.api.zoom_take import Take, TakeError, take, vault_step
from everybit.api.zoom_told import tell_zoomed
from everybit.api.zoom_walk import FirstOperation, first_operation
from everybit.core.link import Link
from everybit.core.reanchored import How, Reanchored
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.diff.link_difference import compare_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everybit.core.observation import StepRecord
    from everybit.diff.outcome import Outcome
    from everybit.diff.side import RunSide

    Progress = Callable[[str, int, int], None]
    Records = Mapping[str, StepRecord | None]

#: Kinds of differences that lie before any step: nothing is computed up to them.
_BEFORE: Final = frozenset({"init", "load"})


@dataclass(slots=True, kw_only=True)
class _Zoom:
    """What a zoom works on.

    Attributes:
        step: The step.
        rank: The rank.
        sides: Both runs, by name.
        records: What they recorded of the step.
        folder: For the computations.
        progress: Told which run, the steps done, and how many there are.
        takes: Computations that came to the step, by name of the run.
        skipped: Why a run has none.
        whole: Runs that are computed from their start, and not from a checkpoint of a Vault.
    """

    step: int
    rank: int
    sides: Mapping[str, RunSide]
    records: Records
    folder: Path
    progress: Progress
    takes: dict[str, Take] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    num_taken: int = 0

    def take(self, side: str, **wanted: Any) -> Take:
        """Compute a side again."""
        self.num_taken += 1
        number = f"{side}-{self.num_taken}"
        return take(
            self.programs[side],
            self.step,
            self.folder / number,
            progress=lambda _, done: self.progress(side, done, self.step + 1),
            near=side not in self.whole,
            **wanted,
        )

    def begin(self, side: str) -> None:
        """Compute a side for the first time: from its Vault's checkpoint, else from its start.

        Raises:
            TakeError: It did not come to the step.
        """
        try:
            done = self.take(side)
            if done.vault_step is None or any(
                _agrees(record, done.record) for record in self.records.values()
            ):
                self.takes[side] = done
                return
        except TakeError:
            if vault_step(self.folder / f"{side}-{self.num_taken}") is None:
                raise
        # What the program saves does not lead on to the same bits.
        self.whole.add(side)
        self.takes[side] = self.take(side)


def zoom(
    outcome: Outcome,
    a: RunSide,
    b: RunSide,
    record_of: Callable[[str, int, int], StepRecord | None],
    *,
    progress: Progress = lambda *_: None,
    folder: Path | None = None,
) -> Outcome:
    """Return the outcome with what computing the step again tells.

    Args:
        outcome: Of the two records.
        a: Run A.
        b: Run B.
        record_of: Returns the record of a run's rank and step.
        progress: Told which run is computed, how many steps are done, and of how many.
        folder: Keep what was seen and printed there; a temporary folder where None.
    """
    first = outcome.first
    if first is None:
        return outcome
    evidence = outcome.findings[0].evidence
    seen = evidence.get("seen_at")
    step = first.where.step
    if isinstance(seen, dict) and isinstance(seen.get("step"), int):
        step = seen["step"]
    reason = ""
    if step is None or str(first.where.link) in _BEFORE:
        reason = "the runs part before the first step: nothing is computed up to there"
    elif "aligned" in evidence:
        reason = "the runs are counted on from one another"
    if reason or step is None:
        return _with(outcome, [Skipped(what="zoom", why=reason, promised=False)])
    rank = first.where.rank or 0
    with tempfile.TemporaryDirectory(prefix="everybit-zoom-") as scratch:
        work = _Zoom(
            step=step,
            rank=rank,
            sides={"A": a, "B": b},
            records={name: record_of(name, rank, step) for name in "AB"},
            folder=(folder or Path(scratch)).resolve(),
            progress=progress,
        )
        found = try_capsules(work.sides, step, rank) or _look(work)
    outcome = _with(outcome, work.skipped)
    if found is None:
        return outcome
    checked = Checked(what="computations of the step again", count=work.num_taken or 1)
    outcome = replace(outcome, coverage=outcome.coverage + Coverage(checked=(checked,)))
    return tell_zoomed(outcome, found)


def _with(outcome: Outcome, skipped: list[Skipped]) -> Outcome:
    return replace(outcome, coverage=outcome.coverage + Coverage(skipped=tuple(skipped)))


def _look(work: _Zoom) -> Reanchored | None:
    """Compute what can be computed here, and compare."""
    for name, side in work.sides.items():
        try:
            work.programs[name] = find_program_of(side)
            work.begin(name)
            if (begun := work.takes[name].vault_step) is not None:
                why = f"from its Vault's checkpoint of step {begun}: what led there was not"
                what = f"zoom: run {name} computed again"
                work.skipped.append(Skipped(what=what, why=why, promised=False))
        except (CannotRunError, TakeError) as error:
            work.skipped.append(Skipped(what=f"zoom: run {name} computed again", why=str(error)))
    if len(work.takes) == 2:
        return _compare(work)
    for name in work.takes:
        return _one_side(work, name)
    return None


def _compare(work: _Zoom) -> Reanchored:
    """Both sides were computed again."""
    same = {name: _repeats(work, name, name) for name in "AB"}
    crossed = {"A": _repeats(work, "A", "B"), "B": _repeats(work, "B", "A")}
    for culprit, other in (("B", "A"), ("A", "B")):
        if same[other] and not same[culprit] and crossed[culprit]:
            if why := _changed_files(work, culprit):
                return _reanchored(work, How.UNREPEATED, detail=why)
            return _reanchored(work, How.TRANSIENT, side=culprit)
    if not all(same.values()):
        names = " and ".join(name for name, is_same in same.items() if not is_same)
        why = _changed_files(work, *(name for name, is_same in same.items() if not is_same))
        detail = why or f"{names} gave other bits this time"
        return _reanchored(work, How.UNREPEATED, detail=detail)
    part = first_operation(work.takes["A"].events(), work.takes["B"].events())
    if part is None:
        return _reanchored(work, How.EQUAL)
    if part.how not in (How.COMPUTED, How.CARRIED, How.GIVEN):
        return _placed(work, part)
    place = part.place if part.how is not How.COMPUTED else -1
    try:
        theirs = work.take("B", hold=part.number)
        mine = work.take(
            "A",
            hold=part.number,
            other=theirs.held,
            place=place,
            other_settings=dict(theirs.settings),
        )
    except TakeError as error:
        work.skipped.append(Skipped(what="zoom: the operation computed again", why=str(error)))
        return _placed(work, part)
    return _placed(work, part, mine.measured)


def _one_side(work: _Zoom, name: str) -> Reanchored | None:
    """One side alone can run here: from its state, under the other's settings."""
    other = "B" if name == "A" else "A"
    if not _repeats(work, name, name):
        detail = _changed_files(work, name) or f"{name} gave other bits this time"
        return _reanchored(work, How.UNREPEATED, detail=detail)
    theirs = _recorded_settings(work.sides[other].environment)
    mine = work.takes[name].settings
    wanted = {key: value for key, value in theirs.items() if mine.get(key) != value}
    if not wanted:
        why = f"{other} cannot be computed here, and it had the same threads and precision flags"
        work.skipped.append(Skipped(what="zoom: under the other run's settings", why=why))
        return None
    try:
        anchored = work.take(name, settings=wanted)
    except TakeError as error:
        work.skipped.append(Skipped(what="zoom: under the other run's settings", why=str(error)))
        return None
    theirs_again = _agrees(work.records[other], anchored.record)
    told = ", ".join(f"{key} = {value}" for key, value in wanted.items())
    if theirs_again:
        return _reanchored(
            work,
            How.COMPUTED,
            same_settings=False,
            explained=True,
            repeats=True,
            detail=f"computed from {name}'s state with {told}",
            op=f"step {work.step}",
        )
    why = f"from {name}'s state with {told} the step does not give {other}'s bits either"
    work.skipped.append(Skipped(what="zoom: under the other run's settings", why=why))
    return None


def _changed_files(work: _Zoom, *names: str) -> str:
    """Say which files are not what a run read when it computed the step; "" where all are.

    A program that reads another configuration or other data now does not tell what it did then.
    """
    told = []
    for name in names:
        record = work.records[name]
        if record is None:
            continue
        found = work.takes[name].changed_after(record.time_s, work.programs[name].recorded)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            told.append(f"{found[0].name}{more}, which {name} reads, was changed after it ran")
    return "; ".join(told)


def _repeats(work: _Zoom, computed: str, recorded: str) -> bool:
    return _agrees(work.records[recorded], work.takes[computed].record)


def _agrees(recorded: StepRecord | None, computed: StepRecord) -> bool:
    """Whether a computation gives what was recorded, in all that both have."""
    if recorded is None:
        return False
    # Streams that nobody seeded start anywhere; what was drawn from others shows in the values.
    kept = {table.link for table in computed.tables} - {Link.RNG}
    recorded = replace(
        recorded,
        tables=tuple(table for table in recorded.tables if table.link in kept),
        optimizer="",
        skipped=False,
    )
    differences, num_compared = compare_steps(recorded, computed, set())
    differing = [each for each in differences if each.link is not Link.RNG]
    return num_compared > 0 and not any(each.differing or each.fact for each in differing)


def _recorded_settings(environment: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, section, entry in (
        ("threads", "threads", "intra_op"),
        ("precision", "precision", "float32_matmul"),
        ("deterministic", "determinism", "deterministic_algorithms"),
        ("mkldnn", "determinism", "mkldnn_enabled"),
    ):
        value = (environment.get(section) or {}).get(entry)
        if value is not None:
            told[key] = value
    return told


def _placed(
    work: _Zoom, part: FirstOperation, measured: Mapping[str, Any] | None = None
) -> Reanchored:
    facts = dict(measured or {})
    facts.pop("place", None)
    if "elements" in facts:
        facts["elements"] = tuple(facts["elements"])
    settings = [work.takes[name].settings for name in "AB"]
    return _reanchored(
        work,
        part.how,
        module=part.module,
        op=part.op,
        phase=part.phase,
        name=part.name,
        detail=part.detail,
        same_settings=settings[0] == settings[1],
        **facts,
    )


def _reanchored(work: _Zoom, how: How, **facts: Any) -> Reanchored:
    return Reanchored(how=how, step=work.step, rank=work.rank, **facts)
