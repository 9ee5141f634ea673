"""Moving averages (EMA): of this model, independent of it, and moving (FIL115)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.newest import NEVER_MOVED
from everybit.files.checkpoints.parameters import pair_average, strip_wrappers
from everybit.files.checkpoints.snapshot import Key, Role, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.movement import Series
    from everybit.files.checkpoints.parameters import ModelState
    from everybit.files.checkpoints.snapshot import Snapshot
    from everybit.files.checkpoints.state import TrainingState

_LISTED: Final = 16
_OWN_COUNTERS: Final = ("n_averaged", "num_updates", "optimization_step", "updates", "step")


def check_averages(state: TrainingState) -> list[Finding]:
    """Return the findings about averages that are not those of the model beside them."""
    found: list[Finding] = []
    for average in state.averages:
        for model in state.models:
            pairs = pair_average(average, model)
            names = {strip_wrappers(name) for name in model.tensors}
            if names & pairs.keys():
                found += _against(average, model, state)
                break
    return found


def _say(average: ModelState, message: str, tensor: str | None, **more: Any) -> Finding:
    where = Location(path=average.file, tensor=tensor)
    return rule("FIL115").finding(f"{average.file}: {message}", where=where, **more)


def _against(average: ModelState, model: ModelState, state: TrainingState) -> Iterator[Finding]:
    pairs = pair_average(average, model)
    live = {strip_wrappers(name): tensor for name, tensor in model.tensors.items()}
    label = average.root or average.file
    odd = [name for name, t in pairs.items() if name in live and t.shape != live[name].shape]
    if odd:
        yield _say(
            average,
            f"{label} has {odd[0]} of shape {list(pairs[odd[0]].shape)}, the model "
            f"{list(live[odd[0]].shape)}",
            pairs[odd[0]].name,
            evidence={"num_different": len(odd), "different": odd[:_LISTED]},
        )
        return
    unknown = [name for name in pairs if name not in live]
    trained = {
        strip_wrappers(e.parameter) for o in state.optimizers for e in o.entries if e.parameter
    }
    missing = [name for name in live if name in trained and name not in pairs]
    for names, what in ((unknown, "which the model does not have"), (missing, "")):
        if names and len(names) < len(pairs):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield _say(
                average,
                f"{label} holds {names[0]}{more}, {what}"
                if what
                else f"{label} lacks {names[0]}{more}, which the optimizer trains",
                pairs[names[0]].name if what else None,
                evidence={"num_different": len(names), "different": names[:_LISTED]},
                severity=Severity.WARNING,
            )
            return
    shared = [
        name
        for name, t in pairs.items()
        if name in live and average.file == model.file and t.num_elements > 1
        if t.byte_ranges and (t.member, t.start) == (live[name].member, live[name].start)
    ]
    if shared and _has_trained(state):
        yield _say(
            average,
            f"{label} is no copy: {shared[0]} and {len(shared) - 1} more lie in the same memory "
            "as the live weights, so the average is the model itself",
            pairs[shared[0]].name,
            evidence={"num_shared": len(shared), "num_tensors": len(pairs)},
            severity=Severity.WARNING,
            remedy="Make the average from `copy.deepcopy(model)`, not from its state_dict.",
        )


def _has_trained(state: TrainingState) -> bool:
    steps = [step for optimizer in state.optimizers for step in optimizer.steps]
    return any(step > 0 for step in steps) or any(v > 0 for v in state.counters.values())


def find_idle_averages(series: Series) -> list[Finding]:
    """Return the findings about averages that stopped moving, or became the live weights again."""
    return [*_unmoved(series), *_reset(series)]


def _unmoved(series: Series) -> Iterator[Finding]:
    """Find averages that are the same in the two newest siblings while the model moved."""
    before, after = series.snapshots[-2], series.snapshots[-1]
    pair = series.pairs[-1]
    partners = _partners(after)
    # A frozen tensor's average stands still with it.
    held = {k for k in pair.equal | pair.moved if k in partners and partners[k] in pair.moved}
    if not held or held & pair.moved:
        return
    first = min(held)
    one, two = _own_counts(before), _own_counts(after)
    counted = {key: value for key, value in two.items() if value != one.get(key, value)}
    always = all(not other.moved & held for other in series.pairs)
    how = "never moved" if always and len(series.pairs) > 1 else "did not move"
    yield rule("FIL115").finding(
        f"{after.checkpoint.name}: its average {how} since {before.checkpoint.name} in "
        f"{len(held)} tensors, the model did",
        where=Location(
            path=after.tensors[first].contents.name, tensor=first.name, step=after.checkpoint.step
        ),
        evidence={
            "equal_to": before.checkpoint.name,
            "num_equal": len(held),
            NEVER_MOVED: sum(not other.moved & held for other in series.pairs),
            **({"counted_on": counted} if counted else {}),
        },
        severity=Severity.ERROR if counted else Severity.WARNING,
        remedy="Use the live weights; look whether the average's update is called.",
    )


def _own_counts(snapshot: Snapshot) -> dict[str, float]:
    roots = [average.root for average in snapshot.state.averages]
    return {
        key: value
        for key, value in snapshot.state.counters.items()
        if key.rpartition(".")[2] in _OWN_COUNTERS
        and any(key.rpartition(":")[2].startswith(f"{root}.") for root in roots if root)
    }


def _reset(series: Series) -> Iterator[Finding]:
    """Find averages that lagged behind the model and then are equal to it."""
    movable = series.movable
    lagged: str | None = None
    for index, snapshot in enumerate(series.snapshots):
        digests = series.digests[index]
        pairs = {
            average: live
            for average, live in _partners(snapshot).items()
            if live in movable and average in digests and live in digests
        }
        equal = [key for key, live in pairs.items() if digests[key] == digests[live]]
        if pairs and len(equal) == len(pairs) and lagged is not None:
            first = min(equal)
            yield rule("FIL115").finding(
                f"{snapshot.checkpoint.name}: its average is bit for bit the live weights in "
                f"{len(equal)} tensors; in {lagged} it lagged behind them",
                where=Location(
                    path=snapshot.tensors[first].contents.name,
                    tensor=first.name,
                    step=snapshot.checkpoint.step,
                ),
                evidence={"num_equal": len(equal), "lagged_in": lagged},
                severity=Severity.WARNING,
                remedy=f"The average was reset; take the one of {lagged} to go on from.",
            )
            return
        if pairs and not equal:
            lagged = snapshot.checkpoint.name


def _partners(snapshot: Snapshot) -> dict[Key, Key]:
    """Return the live tensor of each of a snapshot's averaged tensors."""
    parts = {contents.name: part_of(part) for part, contents in snapshot.files.items()}
    found: dict[Key, Key] = {}
    for average in snapshot.state.averages:
        for model in snapshot.state.models:
            live = {strip_wrappers(name): tensor for name, tensor in model.tensors.items()}
            for name, tensor in pair_average(average, model).items():
                one = Key(parts.get(average.file, ""), tensor.name)
                if name not in live or one in found:
                    continue
                two = Key(parts.get(model.file, ""), live[name].name)
                averaged = snapshot.tensors.get(one)
                if averaged and averaged.role is Role.AVERAGE and two in snapshot.tensors:
                    found[one] = two
    return found
