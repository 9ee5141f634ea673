"""Two evaluations sample by sample, over all of their calls: what differs, and what is to blame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.link import Link
from everybit.core.observation import sample_of
from everybit.diff.link_difference import compare_tables
from everybit.diff.starts import overlay

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord, TensorTable

#: Samples and answers told one by one.
MAX_TOLD: Final = 16
_AT_REST: Final = frozenset({"MEM601"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One rank of a run that trains nothing.

    Attributes:
        starts: Digests of the weights that it began with.
        steps: Its calls, ascending.
        answers: By step and output, the class of each sample, where it was recorded.
        modes: The modes that its modules were in (`train`, `eval`), as recorded; None where not.
        findings: What its Guard found.
    """

    starts: Sequence[TensorTable] = ()
    steps: Iterable[StepRecord] = ()
    answers: Mapping[int, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    modes: Any = None
    findings: Sequence[Finding] = ()


@dataclass(slots=True)
class _Counted:
    samples: int = 0
    differing: int = 0
    whole: int = 0
    first: list[dict[str, int]] = field(default_factory=list)
    answers: int = 0
    changed: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    calls_with_other_inputs: int = 0
    first_other_inputs: int | None = None
    from_equal_inputs: int = 0


def compare_evaluations(a: Evaluation, b: Evaluation) -> dict[str, Any] | None:
    """Return what differs over all calls, JSON-ready; None where no outputs are on record.

    Calls are paired by their number. `blame` is the first link of the chain that differs: `weights`
    (those that the model began with, or that changed at rest), `mode` (training or evaluation
    mode), `data` (the inputs), `compute` (equal weights and inputs, other outputs), or `none`.
    """
    counted = _Counted()
    theirs = {record.step: record for record in b.steps}
    for record in a.steps:
        other = theirs.get(record.step)
        if other is not None:
            _count(counted, record, other)
            _count_answers(
                counted, record.step, a.answers.get(record.step), b.answers.get(record.step)
            )
    if not counted.samples and not counted.whole:
        return None
    weights, num_weights = _weights(a, b)
    damaged = [
        {"run": name, "message": finding.message, "where": finding.where.to_json()}
        for name, side in (("A", a), ("B", b))
        for finding in side.findings
        if finding.rule in _AT_REST
    ]
    told: dict[str, Any] = {
        "calls": counted.calls,
        "samples": counted.samples,
        "samples_differing": counted.differing,
        "first_samples": counted.first,
        "outputs_recorded_whole": counted.whole,
        "answers": counted.answers,
        "answers_changed": counted.changed,
        "changed_answers": counted.changes,
        "weights_differing": weights[:MAX_TOLD],
        "num_weights_differing": len(weights),
        "num_weights": num_weights,
        "weights_damaged": damaged[:MAX_TOLD],
        "modes": [a.modes, b.modes],
        "calls_with_other_inputs": counted.calls_with_other_inputs,
        "first_other_inputs": counted.first_other_inputs,
    }
    told["blame"], told["why"] = _blame(told, counted)
    return told


def _count(counted: _Counted, a: StepRecord, b: StepRecord) -> None:
    counted.calls += 1
    inputs = compare_tables(Link.BATCH, _of(a, Link.BATCH), _of(b, Link.BATCH))
    if inputs.parts:
        counted.calls_with_other_inputs += 1
        if counted.first_other_inputs is None:
            counted.first_other_inputs = a.step
    outputs = compare_tables(Link.OUTPUT, _of(a, Link.OUTPUT), _of(b, Link.OUTPUT))
    names = [name for table in _of(a, Link.OUTPUT) for name in table.names]
    samples = {sample for name in names if (sample := sample_of(name)) is not None}
    counted.samples += len(samples)
    counted.whole += sum(sample_of(name) is None for name in names)
    differing = [sample_of(name) for name, _, _ in outputs.differing]
    places = sorted({sample for sample in differing if sample is not None})
    counted.differing += len(places)
    if outputs.differing and not inputs.parts:
        counted.from_equal_inputs += 1
    room = MAX_TOLD - len(counted.first)
    counted.first += [{"step": a.step, "sample": sample} for sample in places[:room]]


def _count_answers(
    counted: _Counted,
    step: int,
    a: Mapping[str, Sequence[int]] | None,
    b: Mapping[str, Sequence[int]] | None,
) -> None:
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return
    for name in a.keys() & b.keys():
        pairs = list(zip(a[name], b[name], strict=False))
        counted.answers += len(pairs)
        changed = [(at, one, other) for at, (one, other) in enumerate(pairs) if one != other]
        counted.changed += len(changed)
        room = MAX_TOLD - len(counted.changes)
        counted.changes += [
            {"step": step, "sample": at, "a": one, "b": other} for at, one, other in changed[:room]
        ]


def _of(record: StepRecord, link: Link) -> list[TensorTable]:
    return [table for table in record.tables if table.link is link]


def _weights(a: Evaluation, b: Evaluation) -> tuple[list[str], int]:
    """Return the names of the weights that were not the same from the start, and how many are."""
    held = [overlay(tuple(side.starts))[0] for side in (a, b)]
    found = compare_tables(Link.INIT, held[:1], held[1:])
    return [name for name, _, _ in found.differing], found.num_compared


def _blame(told: Mapping[str, Any], counted: _Counted) -> tuple[str, str]:
    if told["weights_damaged"]:
        run = told["weights_damaged"][0]
        return "weights", f"weights changed in memory while run {run['run']} went on"
    if told["num_weights_differing"]:
        few, of = told["num_weights_differing"], told["num_weights"]
        told_few = f"{few} of {of} tensors of the weights differ from the start"
        if few * 4 <= of:
            return "weights", f"{told_few}, the others are equal to the bit: no other checkpoint"
        return "weights", f"{told_few}: another checkpoint"
    modes = told["modes"]
    if None not in modes and modes[0] != modes[1]:
        return "mode", f"the modules are in other modes: {modes[0]} in A, {modes[1]} in B"
    if counted.calls_with_other_inputs:
        share = f"{counted.calls_with_other_inputs} of {counted.calls} calls"
        return "data", f"the weights are equal and the inputs of {share} differ"
    if counted.differing or counted.from_equal_inputs:
        return "compute", "weights and inputs are equal, and outputs differ"
    return "none", "weights, inputs and outputs are equal: look at what is counted, and how"
