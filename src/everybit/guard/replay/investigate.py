"""A call and its repeat differ: repeat it until it is clear why, and tell what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from everybit.core.link import Link
from everybit.core.mismatch import Cause, Mismatch
from everybit.core.pattern import describe_pattern
from everybit.guard.replay.compare import Difference, agree, compare
from everybit.guard.replay.operations import Operations
from everybit.guard.replay.repeat import CannotRepeatError, Repeated, repeat
from everybit.guard.replay.synchronous import Race, find_race
from everybit.guard.replay.values import differ, on_host, word_of
from everybit.probe.memory import TensorMemory, dtype_name, row_major, version, why_unreadable
from everybit.probe.state.place import differing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from everybit.guard.readout import Word
    from everybit.guard.replay.record import CallRecord

#: Repeats of a call that differed, the first one included.
NUM_REPEATS: Final = 3
#: So often a part has to repeat exactly before one repeat that differs is taken for a fault.
MIN_EXACT: Final = 3


def investigate(
    record: CallRecord, first: Repeated, difference: Difference, *, rank: int, num_exact: int
) -> Mismatch:
    """Repeat a call that differed, and say what is behind it.

    Args:
        record: The call.
        first: Its first repeat.
        difference: Where they part.
        rank: Rank of this process.
        num_exact: How often the part that is named has repeated exactly before in this run.

    Raises:
        CannotRepeatError: What it began with is not there any more: nothing can be said.
    """
    if why := why_not_the_same(record):
        raise CannotRepeatError(why)
    changed = _changed_since(record) if difference.link is Link.GRAD else None
    repeats = [first]
    while len(repeats) < NUM_REPEATS:
        repeats.append(repeat(record, keep=difference.contributions))
    as_first = sum(compare(record, each) is None for each in repeats)
    alike = all(agree(repeats[-1], each) for each in repeats)
    operation = _unordered(record, difference)
    race: Race | None = None
    if operation or (as_first == 0 and not alike) or as_first not in (0, NUM_REPEATS - 1):
        cause = Cause.NONDETERMINISTIC
        race = None if operation else find_race(record, repeats)
    elif as_first:
        cause = Cause.REPEAT_ERRED if num_exact >= MIN_EXACT else Cause.NONDETERMINISTIC
    else:
        cause = Cause.TRANSIENT if num_exact else Cause.UNPROVEN
    agreeing = NUM_REPEATS if as_first == 0 and alike else 1 + as_first
    apart = NUM_REPEATS + 1 - agreeing
    if race is not None:
        cause, agreeing, apart = Cause.RACE, race.num_alike, race.num_apart
    told: dict[str, Any] = {}
    if not as_first and changed is not None:
        name = record.events[changed].name
        told = _event_elements(record, repeats[-1], changed, f"what {name} gave, kept for backward")
    if not as_first:
        told = told or _elements(record, repeats[-1], difference)
    return Mismatch(
        step=record.step,
        rank=rank,
        call=record.call,
        link=difference.link,
        module=difference.module,
        operation=operation or difference.operation,
        cause=cause,
        num_for=agreeing,
        num_against=apart,
        num_exact=num_exact,
        outputs=tuple(record.paths[place] for place in difference.outputs),
        parameters=tuple(_parameters(record, difference)),
        **told,
    )


def damaged_output(record: CallRecord, right: Repeated, *, rank: int) -> Mismatch | None:
    """Look whether an output has changed in memory after the call, and nothing wrote to it.

    Args:
        record: A call that has repeated exactly.
        right: Its repeat.
        rank: Rank of this process.
    """
    for place, (tensor, before) in enumerate(record.outputs):
        if version(tensor) != before or not _differs_now(tensor, record.output_words[place]):
            continue
        path = f"output {record.paths[place]}".rstrip()
        told = _told(tensor, right.outputs[place], path)
        return Mismatch(
            step=record.step,
            rank=rank,
            call=record.call,
            link=Link.FORWARD,
            module="",
            cause=Cause.CHANGED_AFTER,
            num_for=2,
            num_against=1,
            outputs=(record.paths[place],),
            **told,
        )
    return None


def late_mismatch(
    record: CallRecord, outputs: Sequence[tuple[int, torch.Tensor]], *, rank: int
) -> Mismatch:
    """Return what is told of a call that was held, unwatched, until its update.

    No digest was taken when it ended: what wrote to its outputs past torch since is not told from
    what computed them wrong, so that it is no proof.

    Args:
        record: The call.
        outputs: Places of outputs that come out otherwise, with what two repeats gave.
        rank: Rank of this process.
    """
    place, right = outputs[0]
    path = f"output {record.paths[place]}".rstrip()
    return Mismatch(
        step=record.step,
        rank=rank,
        call=record.call,
        link=Link.FORWARD,
        module="",
        whole=True,
        cause=Cause.UNPROVEN,
        num_for=2,
        num_against=1,
        outputs=tuple(record.paths[each] for each, _ in outputs),
        **_told(record.outputs[place][0], right, path),
    )


def why_not_the_same(record: CallRecord) -> str:
    """Return what the call began with that holds other bytes now; "" where nothing does."""
    pairs = [("an input", t, word) for t, _, word in record.inputs]
    pairs += [(name, p, word) for name, p, _, word in record.weights]
    known = [(name, was, now) for name, t, was in pairs if (now := word_of(t)) is not None]
    read = on_host([w for _, was, now in known for w in (was, now)])
    for index, (name, _, _) in enumerate(known):
        if differ(read[2 * index], read[2 * index + 1]):
            return f"{name} has changed since it was called, past its version counter"
    return ""


def _changed_since(record: CallRecord) -> int | None:
    """Return the event whose tensors hold other bytes than in the forward; nothing wrote to them.

    A tensor that autograd keeps for the backward pass is damaged where it lies.
    """
    for place, event in enumerate(record.events):
        for (tensor, before), was in zip(event.tensors, event.words, strict=False):
            if version(tensor) == before and _differs_now(tensor, was):
                return place
    return None


def _differs_now(tensor: torch.Tensor, was: Word | None) -> bool:
    now = word_of(tensor)
    if was is None or now is None:
        return False
    return differ(*on_host([was, now]))


def _unordered(record: CallRecord, difference: Difference) -> str:
    """Return the operation of the part to blame that adds up in no fixed order, "" for none."""
    operations = Operations()
    repeat(record, operations=operations)
    backward = difference.link is Link.GRAD
    names = (
        each.name
        for each in operations.found
        if each.backward == backward and each.module == difference.module and each.unordered
    )
    return next(names, "")


def _parameters(record: CallRecord, difference: Difference) -> list[str]:
    """Return the names of the parameters whose gradients differ."""
    found: dict[str, None] = {}
    for _, place, edge in difference.contributions:
        name, _ = _target(record, place, edge)
        if name:
            found[name] = None
    return list(found)


def _target(record: CallRecord, place: int, edge: int) -> tuple[str, torch.Tensor | None]:
    assert record.graph is not None
    node = record.graph.nodes[place].next_functions[edge][0]
    variable = getattr(node, "variable", None)
    for name, parameter, _, _ in record.weights:
        if parameter is variable:
            return name, parameter
    return "", None


def _elements(record: CallRecord, right: Repeated, difference: Difference) -> dict[str, Any]:
    """Return what differs element by element, where the first computation's values are there."""
    if difference.event is not None:
        told = _event_elements(record, right, difference.event, "what it gives")
        if told:
            return told
    for place in difference.outputs:
        tensor, before = record.outputs[place]
        if version(tensor) == before:
            return _told(tensor, right.outputs[place], f"output {record.paths[place]}".rstrip())
    if difference.link is Link.FORWARD:
        return {}
    for number, place, edge in difference.contributions:
        name, parameter = _target(record, place, edge)
        kept = right.kept.get((number, place, edge))
        gradient = None if parameter is None else parameter.grad
        word = record.passes[number].words[place][edge]
        # What the loop adds, or another call, is not told apart in `.grad`.
        if kept is not None and gradient is not None and word == word_of(gradient):
            told = _told(gradient, kept, f"the gradient of {name}")
            return told | {"parameter": name} if told else {}
    return {}


def _event_elements(record: CallRecord, right: Repeated, event: int, name: str) -> dict[str, Any]:
    mine, theirs = record.events[event].tensors, right.events[event].tensors
    if len(mine) != len(theirs):
        return {}
    for (tensor, before), (other, _) in zip(mine, theirs, strict=True):
        if version(tensor) == before:
            told = _told(tensor, other, name)
            if told:
                return told
    return {}


def _told(found: torch.Tensor, right: torch.Tensor, name: str) -> dict[str, Any]:
    found, right = found.detach().cpu(), right.detach().cpu()
    if why_unreadable(found) or found.shape != right.shape or found.dtype is not right.dtype:
        return {}
    dtype, shape = dtype_name(found.dtype), tuple(found.shape)
    one, other = (
        np.frombuffer(TensorMemory.of(row_major(each)).copy(), np.uint8) for each in (right, found)
    )
    told = differing(dtype, found.element_size(), one, other)
    if not told["num_elements"]:
        return {}
    return told | {
        "tensor": name,
        "dtype": dtype,
        "shape": shape,
        "device": str(found.device),
        "pattern": describe_pattern(told["elements"], shape),
    }
