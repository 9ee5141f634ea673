"""Counters of one checkpoint, and of siblings, that no way of counting brings together."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError
from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.config import read_json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Shelf
    from everybit.files.checkpoints.snapshot import Snapshot

TRAINER_STATE: Final = "trainer_state.json"
_LIGHTNING: Final = "pytorch-lightning_version"
_LIGHTNING_STEP: Final = re.compile(r"(?:^|[-_])step=(\d+)(?=[-_.]|$)")
_MOST_STEPS: Final = 1e12
#: Counters closer than this are one.
_SAME: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """A number of updates: who says it, and in which file."""

    who: str
    file: str
    value: float


def check_counters(
    snapshot: Snapshot, shelf: Shelf, siblings: Mapping[int, str], folder_name: str = ""
) -> list[Finding]:
    """Return the findings about counters of one checkpoint that cannot belong together.

    Only where the writer's own meaning of the counters is known (Trainer, Lightning) are they held
    against each other; a plain loop may count what it likes.

    Args:
        snapshot: The checkpoint.
        shelf: The target's files.
        siblings: Names of the other checkpoints of the series by their step.
        folder_name: The name of the target itself, where the checkpoint is it.
    """
    found = list(_impossible(snapshot))
    if found:
        return found
    trainer = snapshot.checkpoint.files.get(TRAINER_STATE)
    if trainer is not None:
        found += _of_trainer(snapshot, shelf, trainer, siblings, folder_name)
    for contents in snapshot.files.values():
        if _LIGHTNING in contents.values:
            found += _of_lightning(snapshot, contents.name)
    return found


def _impossible(snapshot: Snapshot) -> Iterator[Finding]:
    """Find step counters that no count can give."""
    for optimizer in snapshot.state.optimizers:
        steps = [(entry, entry.step) for entry in optimizer.entries if entry.step is not None]
        usual = Counter(step for _, step in steps).most_common(1)
        for entry, step in steps:
            problem = ""
            if not math.isfinite(step) or step < 0 or step > _MOST_STEPS or step != int(step):
                problem = "which no count of updates gives"
            elif (
                len(steps) > 3
                and usual[0][1] == len(steps) - 1
                and step > usual[0][0]
                and _one_bit_apart(step, usual[0][0])
            ):
                problem = f"one bit from the {usual[0][0]:g} of all others"
            if problem:
                yield rule("FIL115").finding(
                    f"{optimizer.file}: parameter {entry.name or entry.key} took {step:g} steps, "
                    f"{problem}",
                    where=Location(
                        path=optimizer.file,
                        tensor=f"{optimizer.root}.state.{entry.key}.step".lstrip("."),
                    ),
                    evidence={
                        "step": step if math.isfinite(step) else str(step),
                        "usual": usual[0][0] if math.isfinite(usual[0][0]) else str(usual[0][0]),
                        "num_entries": len(steps),
                    },
                    certainty=Certainty.PROOF if "no count" in problem else Certainty.STRONG,
                )
                return


def _one_bit_apart(one: float, other: float) -> bool:
    import struct

    try:
        a, b = (struct.unpack("<I", struct.pack("<f", x))[0] for x in (one, other))
    except OverflowError:
        return False
    return int(a ^ b).bit_count() == 1


def _taken(snapshot: Snapshot) -> _Counted | None:
    """Return the most steps that any optimizer took for any parameter."""
    best = None
    for optimizer in snapshot.state.optimizers:
        if optimizer.steps and (best is None or max(optimizer.steps) > best.value):
            best = _Counted(who="the optimizer", file=optimizer.file, value=max(optimizer.steps))
    return best


def _scheduled(snapshot: Snapshot) -> _Counted | None:
    found = [
        _Counted(who="the scheduler", file=key.partition(":")[0], value=value)
        for key, value in snapshot.state.counters.items()
        if key == "scheduler.pt:last_epoch"
    ]
    contents = snapshot.files.get("scheduler.pt")
    # One that waits for a plateau counts evaluations.
    if not found or contents is None or "num_bad_epochs" in contents.values:
        return None
    if not math.isfinite(found[0].value):
        return None
    return _Counted(who="the scheduler", file=contents.name, value=found[0].value)


def _of_trainer(
    snapshot: Snapshot, shelf: Shelf, trainer: str, siblings: Mapping[int, str], folder_name: str
) -> Iterator[Finding]:
    try:
        says = read_json_object(shelf.files[trainer])
    except PathError:
        return
    step = says.get("global_step") if says else None
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _MOST_STEPS:
        return
    named = snapshot.checkpoint.step
    if named is None and (match := re.fullmatch(r"checkpoint-(\d{1,18})", folder_name)):
        named = int(match[1])
    counted = [item for item in (_taken(snapshot), _scheduled(snapshot)) if item is not None]
    if named is not None and named != step:
        yield _misnamed(snapshot, trainer, step, named, counted)
        return
    if any(item.value == step for item in counted):
        for item in counted:
            if item.value > step or (item.value < step and item.who == "the optimizer"):
                yield from _off(item, step, siblings)
    elif counted and all(item.value > step for item in counted):
        yield from _off(counted[0], step, siblings)


def _misnamed(
    snapshot: Snapshot, trainer: str, step: int, named: int, counted: list[_Counted]
) -> Finding:
    agree = [item.who for item in counted if item.value == step]
    whole = bool(agree) or not counted
    what = (
        f"{snapshot.checkpoint.name or 'the folder'} holds step {step}, its name says {named}"
        if whole
        else f"{trainer} says step {step}; its folder's name and "
        f"{' and '.join(item.who for item in counted)} say {named}"
    )
    sure = not whole and all(item.value == named for item in counted)
    return rule("FIL106").finding(
        what,
        where=Location(path=trainer, step=named),
        evidence={
            "global_step": step,
            "named": named,
            **{item.who.removeprefix("the "): item.value for item in counted},
        },
        severity=Severity.ERROR if sure else Severity.WARNING,
        certainty=Certainty.STRONG,
        remedy=f"Fetch {trainer} again."
        if sure
        else "Look which step this is before you resume from it: its folder was renamed or its "
        "files exchanged.",
    )


def _off(item: _Counted, step: int, siblings: Mapping[int, str]) -> Iterator[Finding]:
    other = siblings.get(int(item.value)) if item.value == int(item.value) else None
    if step and item.value > step and item.value % step == 0 and item.who == "the scheduler":
        return  # Accelerate steps it once a process
    from_there = f": it is that of {other}" if other else ""
    yield rule("FIL115").finding(
        f"{item.file}: {item.who} took {item.value:g} steps, the checkpoint {step}{from_there}",
        where=Location(path=item.file, step=step),
        evidence={
            "counted": item.value,
            "global_step": step,
            **({"step_of": other} if other else {}),
        },
        severity=Severity.ERROR if other or item.value > step else Severity.WARNING,
        remedy=f"Fetch {item.file} again; with {item.who} of another step the resumed run is not "
        "the one that was interrupted.",
    )


def _of_lightning(snapshot: Snapshot, name: str) -> Iterator[Finding]:
    contents = next(found for found in snapshot.files.values() if found.name == name)
    step = contents.values.get("global_step")
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _MOST_STEPS:
        return
    match = _LIGHTNING_STEP.search(name.rpartition("/")[2].rpartition(".")[0])
    if match and int(match[1]) != step:
        yield rule("FIL106").finding(
            f"{name} holds step {step}, its name says {match[1]}",
            where=Location(path=name, step=int(match[1])),
            evidence={"global_step": step, "named": int(match[1])},
            severity=Severity.WARNING,
            remedy="Look which step this is before you resume from it.",
        )
    for optimizer in snapshot.state.optimizers:
        if optimizer.file == name and optimizer.steps and max(optimizer.steps) > step:
            yield rule("FIL115").finding(
                f"{name}: {optimizer.root} took {max(optimizer.steps):g} steps, the trainer {step}",
                where=Location(path=name, step=step),
                evidence={"counted": max(optimizer.steps), "global_step": step},
            )
            return


def find_exchanged_steps(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Return the findings about siblings that say each other's steps.

    Where a counter follows the names, by a constant distance or factor, in all siblings but some
    that have each other's values, these lie under each other's names. One alone that says
    another's step may have been started anew.
    """
    if len(snapshots) < 3:
        return []
    keys = set.intersection(*(set(snapshot.state.counters) for snapshot in snapshots))
    for key in sorted(keys):
        values = [snapshot.state.counters[key] for snapshot in snapshots]
        found = list(_exchanged(snapshots, key, values))
        if found:
            return found
    return []


def find_stale_schedulers(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Return the findings about a scheduler that is a sibling's, though all others are their own.

    Where every other scheduler of a series counts the updates of its own checkpoint, and two do at
    least, it counts updates. One that counts epochs agrees with none, and one that was started anew
    on resuming comes with an optimizer that was.
    """
    odd: list[tuple[Snapshot, _Counted]] = []
    num_own = 0
    for snapshot in snapshots:
        scheduled, taken = _scheduled(snapshot), _taken(snapshot)
        if scheduled is None or taken is None or taken.value != snapshot.step:
            continue
        if scheduled.value == snapshot.step:
            num_own += 1
        else:
            odd.append((snapshot, scheduled))
    if num_own < 2 or len(odd) != 1:
        return []
    snapshot, scheduled = odd[0]
    names = {each.step: each.checkpoint.name for each in snapshots if each is not snapshot}
    if scheduled.value not in names:
        return []
    return list(_off(scheduled, snapshot.step, names))


def _exchanged(snapshots: Sequence[Snapshot], key: str, values: list[float]) -> Iterator[Finding]:
    names = [snapshot.step for snapshot in snapshots]
    pairs = list(zip(values, names, strict=True))
    distances = [round(value - name, 9) for value, name in pairs]
    factors = [round(value / name, 9) if name else math.nan for value, name in pairs]
    for related, by_factor in ((distances, False), (factors, True)):
        (usual, number), *_ = Counter(related).most_common(1)
        if number < 2 or not math.isfinite(usual):
            continue
        expected = [name * usual if by_factor else name + usual for name in names]
        odd = [i for i, value in enumerate(values) if abs(value - expected[i]) > _SAME]
        holders = {expected[i]: i for i in odd}
        if len(odd) < 2 or {values[i] for i in odd} != holders.keys():
            continue
        for i in odd:
            other = snapshots[holders[values[i]]].checkpoint.name
            yield _wrong_name(snapshots[i], key, values[i], expected[i], other)
        return


def _wrong_name(snapshot: Snapshot, key: str, value: float, expected: float, other: str) -> Finding:
    evidence: dict[str, Any] = {"counter": key, "value": value, "expected": expected}
    file = next(iter(snapshot.files.values())).name
    return rule("FIL106").finding(
        f"{snapshot.checkpoint.name}: its {key} is {value:g}, which is that of {other}; "
        f"by its name it should be {expected:g}",
        where=Location(path=file, step=snapshot.checkpoint.step),
        evidence={**evidence, "belongs_to": other},
        severity=Severity.WARNING,
        certainty=Certainty.STRONG,
        remedy=f"{snapshot.checkpoint.name} and {other} may lie under each other's names: look "
        f"before you resume from either.",
    )
