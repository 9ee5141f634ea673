"""`everybit.check_load`: does the model answer the same after a reload from the file."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.arrival import listed
from everybit.checkpoint.digests import digest
from everybit.checkpoint.held import held_by
from everybit.checkpoint.live_bytes import tensor_tree
from everybit.checkpoint.loading import load_into
from everybit.checkpoint.random_state import RandomState
from everybit.core.errors import FindingsError, UsageError
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.probe.digest import flatten

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from everybit.checkpoint.arrival import Arrival

_STATISTICS: Final = ("running_mean", "running_var", "num_batches_tracked")


def check_load(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    prefix: str | None = None,
) -> Verdict:
    """Compare the model's answer before and after a reload from a file, bit for bit.

    The model is called twice as it is, to learn whether it repeats, then loaded from the file and
    called again; every call starts from the same weights, buffers and random numbers. The model is
    left exactly as it was found: weights, buffers, gradients, modes, random generators.

    Args:
        model: Holds what the file should hold: call this right after a save.
        path: The file or folder.
        inputs: What the model is called with: a tuple of arguments, a dict of keyword arguments,
            or one argument.
        prefix: As for `load_into`.

    Returns:
        The verdict. Findings name the tensors in which the file and the model differ; `stats` has
        `outputs` compared and `differing` ones. Inconclusive where the model does not repeat.

    Raises:
        PathError: The file cannot be read.
        UsageError: The model's answer holds nothing to compare.
    """
    began = time.perf_counter()
    before = _Snapshot(model)
    call = _caller(model, inputs)
    findings: list[Finding] = []
    arrival: Arrival | None = None
    changed: list[str] = []
    held: Mapping[str, torch.Tensor] = {}
    try:
        first = before.call(call)
        again = before.call(call)
        before.put_back()
        try:
            arrival = load_into(model, path, prefix=prefix, strict=False)
            changed = before.changed()
            held = _values(model, changed)
            after = before.call(call, loaded=True)
        except FindingsError as error:
            if not error.findings:
                raise
            findings += error.findings
            after = first
    finally:
        before.put_back()
    unstable = sorted(name for name in first if first[name] != again.get(name))
    differing = sorted({*first, *after} - {n for n in first if first[n] == after.get(n)})
    skipped = _why_other_answers(model)
    if arrival is not None:
        findings += arrival.verdict.findings
        skipped += arrival.verdict.coverage.skipped
        if changed:
            findings.append(_changed(before, changed, held, str(path), differing))
        elif differing and not unstable:
            findings.append(_elsewhere(str(path), differing))
    if unstable:
        why = (
            "called twice from the same state it gives different bits (an operation that does "
            "not repeat, see torch.use_deterministic_algorithms)"
        )
        skipped = [
            Skipped(what=f"{len(unstable)} outputs, such as {unstable[0]}", why=why),
            *skipped,
        ]
    checked = [Checked(what="outputs compared", count=len(first))]
    if arrival is not None:
        checked.append(Checked(what="tensors held against the file", count=len(arrival.loaded)))
    return Verdict(
        command="check_load",
        target=(str(path),),
        findings=tuple(findings),
        coverage=Coverage(checked=tuple(checked), skipped=tuple(skipped)),
        stats={
            "outputs": len(first),
            "differing": len(differing),
            "changed_tensors": len(changed),
            "seconds": time.perf_counter() - began,
        },
    )


class _Snapshot:
    """All that a call or a load changes in a model, to be put back."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.held = held_by(model).tensors
        self._tensors = list({id(t): t for t in (*tensors.values(), *self.held.values())}.values())
        with torch.no_grad():
            self._copies = [tensor.detach().clone() for tensor in self._tensors]
        self._gradients = [(p, p.grad) for p in model.parameters()]
        self._modes = [(module, module.training) for module in model.modules()]
        self._rng = RandomState.capture()
        self._trees = {name: tensor_tree(tensor) for name, tensor in self.held.items()}

    def call(self, call: Callable[[], Any], *, loaded: bool = False) -> dict[str, str]:
        """Return the digest of each output of a call from this state, or as just loaded."""
        if not loaded:
            self.put_back()
        self._rng.restore()
        with torch.no_grad():
            return _outputs(call())

    def changed(self) -> list[str]:
        """Return the names of the tensors that hold other values than at first."""
        return [
            name for name, tensor in self.held.items() if tensor_tree(tensor) != self._trees[name]
        ]

    def copy_of(self, name: str) -> torch.Tensor:
        """Return what a tensor held at first."""
        place = next(i for i, t in enumerate(self._tensors) if t is self.held[name])
        return self._copies[place]

    def put_back(self) -> None:
        """Leave everything as it was."""
        with torch.no_grad():
            for tensor, copy in zip(self._tensors, self._copies, strict=True):
                tensor.copy_(copy)
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        for module, mode in self._modes:
            module.training = mode
        self._rng.restore()


def _caller(model: torch.nn.Module, inputs: Any) -> Callable[[], Any]:
    if isinstance(inputs, tuple):
        return lambda: model(*inputs)
    if isinstance(inputs, dict):
        return lambda: model(**inputs)
    return lambda: model(inputs)


def _outputs(answer: Any) -> dict[str, str]:
    if dataclasses.is_dataclass(answer) and not isinstance(answer, dict | type):
        answer = {f.name: getattr(answer, f.name) for f in dataclasses.fields(answer)}
    found = {
        path or "output": str(digest(value))
        for path, value in flatten(answer)
        if isinstance(value, torch.Tensor | int | float | complex | str | bytes)
    }
    if not found:
        raise UsageError(
            f"the model's answer, a {type(answer).__name__}, holds nothing to compare",
            where="check_load",
            todo="wrap the model so that it returns tensors",
        )
    return found


def _values(model: torch.nn.Module, names: list[str]) -> Mapping[str, torch.Tensor]:
    """Return what changed tensors hold now."""
    held = held_by(model).tensors
    return {name: held[name].detach().clone() for name in names}


def _changed(
    before: _Snapshot,
    changed: list[str],
    now: Mapping[str, torch.Tensor],
    path: str,
    differing: list[str],
) -> Finding:
    """Tell in which tensors the file differs from the model, and what that looks like."""
    effect = f"{len(differing)} outputs differ" if differing else "the outputs are the same"
    where = Location(path=path, parameter=changed[0], link=Link.LOAD)
    evidence = {"tensors": changed[:64], "outputs": differing[:16]}
    if all(name.rpartition(".")[2] in _STATISTICS for name in changed):
        return rule("FIL116").finding(
            f"only BatchNorm statistics differ from the file ({listed(changed)}), {effect}: the "
            "model was called in training mode after the save, or the file is of another step",
            where=where,
            evidence=evidence,
            severity=Severity.WARNING,
            remedy="Save after the last call in training mode, and call eval() before answers.",
        )
    if all(_rounded(before.copy_of(name), now[name]) for name in changed):
        return rule("FIL116").finding(
            f"{len(changed)} tensors come back rounded to a shorter dtype ({listed(changed)}), "
            f"{effect}: the file was saved in less precision than the model has",
            where=where,
            evidence=evidence,
            severity=Severity.NOTE,
            remedy="Save in the model's own dtype where a reload must be exact.",
        )
    return rule("FIL116").finding(
        f"the file holds other values than the model in {len(changed)} tensors "
        f"({listed(changed)}), {effect}",
        where=where,
        evidence=evidence,
        severity=Severity.ERROR,
        remedy="Save again, or name the file of this very state; `everybit diff` tells the kind of "
        "difference between two files.",
    )


def _rounded(live: torch.Tensor, loaded: torch.Tensor) -> bool:
    return live.is_floating_point() and any(
        torch.equal(live.to(dtype).to(live.dtype), loaded)
        for dtype in (torch.bfloat16, torch.float16, torch.float32)
        if torch.finfo(dtype).bits < torch.finfo(live.dtype).bits
    )


def _elsewhere(path: str, differing: list[str]) -> Finding:
    return rule("FIL116").finding(
        f"{len(differing)} outputs differ after the reload although every tensor of the state dict "
        "is the same: the model keeps state elsewhere (attributes, buffers outside the state dict)",
        where=Location(path=path, link=Link.LOAD),
        evidence={"outputs": differing[:16]},
        certainty=Certainty.STRONG,
        remedy="Register what the answer depends on as a buffer, so that it is saved.",
    )


def _why_other_answers(model: torch.nn.Module) -> list[Skipped]:
    """Name what makes two calls differ by design; here it is held fixed."""
    found = []
    dropout = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.training and module.p
    ]
    norms = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.training
    ]
    if dropout:
        why = f"it is active in {listed(dropout)}: every call was given the same random numbers"
        found.append(Skipped(what="dropout", why=why, promised=False))
    if norms:
        why = (
            f"{listed(norms)} use the batch's own in training mode: those in the file were not used"
        )
        found.append(Skipped(what="BatchNorm statistics", why=why, promised=False))
    if model.training:
        why = "the model is in training mode; call eval() to compare what is served"
        found.append(Skipped(what="answers in evaluation mode", why=why, promised=False))
    return found
