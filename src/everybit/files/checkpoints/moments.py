"""Optimizer state on the wrong parameter: shapes, names and orders that cannot be (FIL115)."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.matching import ELEMENTWISE, shape_of
from everybit.files.checkpoints.parameters import strip_wrappers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.parameters import ModelState
    from everybit.files.checkpoints.state import OptimizerEntry, OptimizerState, TrainingState
    from everybit.files.tensor import FileTensor

_LISTED: Final = 16


def check_moments(state: TrainingState) -> list[Finding]:
    """Return the findings about optimizers whose state does not fit the model beside them."""
    found: list[Finding] = []
    for optimizer in state.optimizers:
        if optimizer.sharded:
            continue
        for check in (_shapes_of_entries, _named, _order_of_names, _unlisted, _positions, _orphans):
            said = list(check(optimizer, state.models))
            found += said
            if said:
                break  # one damage, one finding
    return found


def _say(
    optimizer: OptimizerState, message: str, tensor: str | None, parameter: str | None, **more: Any
) -> Finding:
    where = Location(path=optimizer.file, tensor=tensor, parameter=parameter)
    return rule("FIL115").finding(f"{optimizer.file}: {message}", where=where, **more)


def _shapes_of_entries(
    optimizer: OptimizerState, _models: Sequence[ModelState]
) -> Iterator[Finding]:
    """Find entries whose own moments have different shapes."""
    for entry in optimizer.entries:
        shaped = [m for m in entry.moments if m.name in ELEMENTWISE and m.shape]
        odd = next((m for m in shaped if m.shape != shaped[0].shape), None)
        if odd is not None:
            yield _say(
                optimizer,
                f"the state of parameter {entry.name or entry.key} has {shaped[0].name} of shape "
                f"{list(shaped[0].shape)} and {odd.name} of shape {list(odd.shape)}",
                odd.tensor,
                entry.parameter or entry.name or None,
                evidence={"shapes": {m.name: list(m.shape) for m in shaped}},
                certainty=Certainty.PROOF,
            )
            return


def _named(optimizer: OptimizerState, models: Sequence[ModelState]) -> Iterator[Finding]:
    """Find entries whose name says one parameter and whose shape another one."""
    if optimizer.matched_by != "names" or not models:
        return
    shapes = {n: t.shape for model in reversed(models) for n, t in model.tensors.items()}
    flat = _is_flat(optimizer)
    odd: list[tuple[OptimizerEntry, tuple[int, ...]]] = []
    for entry in optimizer.entries:
        shape = shape_of(entry)
        if shape is None or not entry.parameter:
            continue
        if _is_other(shape, shapes[entry.parameter], flat=flat):
            odd.append((entry, shape))
    if odd:
        entry, shape = odd[0]
        fits = [name for name, other in shapes.items() if other == shape][:4]
        more = f" ({len(odd)} parameters in all)" if len(odd) > 1 else ""
        yield _say(
            optimizer,
            f"the moments of {entry.parameter} have shape {list(shape)}, the parameter "
            f"{list(shapes[entry.parameter])}{more}",
            entry.moments[0].tensor,
            entry.parameter,
            evidence={"num_different": len(odd), "would_fit": fits},
        )
        return
    named = [entry for entry in optimizer.entries if entry.name or not entry.key.isdecimal()]
    gone = [entry for entry in named if not entry.parameter and shape_of(entry) is not None]
    if gone and len(gone) * 2 < len(named):
        yield _say(
            optimizer,
            f"it holds state for {gone[0].name or gone[0].key}"
            + (f" and {len(gone) - 1} more" if len(gone) > 1 else "")
            + ", which the model does not have",
            gone[0].moments[0].tensor,
            gone[0].name or gone[0].key,
            evidence={"num_missing": len(gone), "missing": [e.name or e.key for e in gone[:16]]},
            severity=Severity.WARNING,
        )


def _is_flat(optimizer: OptimizerState) -> bool:
    """Return whether an optimizer keeps its state in flat shards (FSDP, ZeRO)."""
    shapes = [shape for entry in optimizer.entries if (shape := shape_of(entry)) is not None]
    return all(len(shape) == 1 for shape in shapes)


def _is_other(shape: tuple[int, ...], parameter: tuple[int, ...], *, flat: bool) -> bool:
    """Return whether moments of a shape cannot be those of a parameter, flattened or sharded."""
    if shape == parameter or not shape:
        return False
    return not (flat and len(parameter) != 1 and shape[0] <= math.prod(parameter))


def _order_of_names(optimizer: OptimizerState, models: Sequence[ModelState]) -> Iterator[Finding]:
    """Find names in another order than the model's own.

    After a change of layers, moments lie on other parameters, and the old list of names is saved
    again.
    """
    for model in models:
        if not model.ordered or not optimizer.names:
            continue
        place = {strip_wrappers(name): index for index, name in enumerate(model.tensors)}
        if _is_sorted(list(place)):
            continue  # its keys were sorted after the fact
        for names in optimizer.names:
            known = [strip_wrappers(name) for name in names]
            if len(known) < 2 or not all(name in place for name in known):
                continue
            order = [place[name] for name in known]
            if order == sorted(order) or _is_sorted(known) or order[::-1] == sorted(order):
                continue
            at = next(i for i in range(len(order) - 1) if order[i] > order[i + 1])
            yield _say(
                optimizer,
                f"its names put {known[at]} before {known[at + 1]}, the model's own keys the other "
                f"way round: moments may lie on each other's parameters",
                None,
                known[at],
                evidence={
                    "names": list(names[:_LISTED]),
                    "model": [n for n in model.tensors if strip_wrappers(n) in set(known)][:16],
                },
                severity=Severity.WARNING,
                remedy="Compare the order of the layers when this was saved and now; if it "
                "changed in between, begin the optimizer anew.",
            )
            return


def _is_sorted(names: list[str]) -> bool:
    """Return whether names are in the order of the alphabet, which no module gives by itself."""
    biases = {name for name in names if name.endswith("bias")}
    return names == sorted(names) and any(f"{name[:-4]}weight" in names for name in biases)


def _unlisted(optimizer: OptimizerState, _models: Sequence[ModelState]) -> Iterator[Finding]:
    """Find state under indices that no group lists."""
    if not optimizer.num_parameters:
        return
    gone = [e for e in optimizer.entries if e.group is None and e.key.isdecimal() and e.moments]
    if gone:
        yield _say(
            optimizer,
            f"it holds state for {len(gone)} parameters that none of its groups lists "
            f"(the first is {gone[0].key} of {optimizer.num_parameters})",
            gone[0].moments[0].tensor,
            None,
            evidence={"num_unlisted": len(gone), "unlisted": [e.key for e in gone[:_LISTED]]},
            severity=Severity.WARNING,
        )


def _positions(optimizer: OptimizerState, models: Sequence[ModelState]) -> Iterator[Finding]:
    """Find a few moments that fit each other's parameters where all others fit their own."""
    if optimizer.matched_by or len(optimizer.groups) != 1:
        return
    keys = {key: index for index, key in enumerate(optimizer.groups[0])}
    for model in models:
        tensors = list(model.trainable().items())
        if not model.ordered or len(tensors) != len(keys):
            continue
        odd = _exchanged(optimizer, keys, tensors)
        if odd is None:
            continue
        entry, shape, name = odd[0]
        yield _say(
            optimizer,
            f"the moments of parameter {entry.key} have shape {list(shape)}; in its place the "
            f"model has {name}, {list(model.tensors[name].shape)}, and they fit another one",
            entry.moments[0].tensor,
            name,
            evidence={"num_different": len(odd), "different": [e.key for e, _, _ in odd[:16]]},
            severity=Severity.WARNING,
        )
        return


def _exchanged(
    optimizer: OptimizerState, keys: dict[str, int], tensors: list[tuple[str, FileTensor]]
) -> list[tuple[OptimizerEntry, tuple[int, ...], str]] | None:
    odd, wanted, given = [], Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
    num_known, flat = 0, _is_flat(optimizer)
    for entry in optimizer.entries:
        shape = shape_of(entry)
        if shape is None or entry.key not in keys:
            continue
        num_known += 1
        name, tensor = tensors[keys[entry.key]]
        if _is_other(shape, tensor.shape, flat=flat):
            odd.append((entry, shape, name))
            wanted[tensor.shape] += 1
            given[shape] += 1
    # Another order of the whole is a choice; a few places that fit each other are not.
    return odd if odd and len(odd) * 3 <= num_known and wanted == given else None


def _orphans(optimizer: OptimizerState, models: Sequence[ModelState]) -> Iterator[Finding]:
    """Find more moments of a shape than the checkpoint's models have parameters of it."""
    if optimizer.matched_by or not models:
        return
    there = Counter(tensor.shape for model in models for tensor in model.tensors.values())
    shapes = [(entry, shape_of(entry)) for entry in optimizer.entries]
    # One-dimensional state may be a flat shard of anything.
    held = Counter(shape for _, shape in shapes if shape is not None and len(shape) > 1)
    if not held or not any(there[shape] for shape in held):
        return
    for shape, number in held.items():
        if number > there[shape]:
            first = next(entry for entry, other in shapes if other == shape)
            yield _say(
                optimizer,
                f"it holds state for {number} parameters of shape {list(shape)}, the checkpoint "
                f"has {there[shape]} of it",
                first.moments[0].tensor,
                None,
                evidence={"shape": list(shape), "num_states": number, "num_there": there[shape]},
                severity=Severity.WARNING,
                certainty=Certainty.WEAK,
            )
            return
