"""`everybit.load_into`: load a model from a file, and prove that it arrived."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from everybit.checkpoint.arrival import Arrival, listed
from everybit.checkpoint.held import Held, held_by, refuse_unwritable
from everybit.checkpoint.keys import Match, match_keys, suggestion
from everybit.checkpoint.live_bytes import tensor_tree
from everybit.checkpoint.optimizer_state import plan_optimizer
from everybit.checkpoint.renames import best_fit
from everybit.checkpoint.staging import Staged, stage
from everybit.checkpoint.stored import Chosen, choose
from everybit.checkpoint.whole import check_whole
from everybit.core.errors import FindingsError
from everybit.core.finding import Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.model import read_model
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    import os

    from everybit.files.model import Model


def load_into(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    optimizer: torch.optim.Optimizer | None = None,
    prefix: str | None = None,
    key: str | None = None,
    optimizer_key: str | None = None,
    strict: bool = True,
    verify: bool = True,
) -> Arrival:
    """Load a model's weights from a file or folder, and prove that every one arrived.

    Reads safetensors, `torch.save` archives, sharded folders and the like; runs nothing that the
    file names. All is read, converted and checked before the model is touched, so that it is loaded
    whole or not at all; meanwhile the tensors are in memory twice, as with `torch.load`. Afterwards
    the digest of every tensor of the model is held against the file's.

    Args:
        model: Where to. Tensors keep their device and dtype; conversions are told.
        path: A model file, an index, or a folder. A state dict under `model`, `state_dict` and the
            like is found.
        optimizer: Also load its state from the same file: matched by parameter name and shape, so
            that no moment lands on another parameter.
        prefix: A prefix that is removed from the file's names (`module.`), or where none of them
            has it is added; `auto` takes the one that makes all fit.
        key: Dotted key in the file under which the model's state dict lies, where it is not found.
        optimizer_key: The same for the optimizer's state.
        strict: Refuse the load where anything is missing, unexpected or of another shape and no
            reason makes that harmless. False loads what fits and tells the rest as warnings.
        verify: First test the file by its manifest or its own checksums (one more read).

    Returns:
        What arrived and what did not.

    Raises:
        FindingsError: The file is damaged, `strict` is not met, or nothing at all fits (whatever
            `strict` says); the model is untouched. Or a tensor does not hold what was written.
        PathError: The file cannot be read.
        DamagedError: It is damaged so that it cannot be read; names the rule.
        UsageError: The model has no memory, or a dtype cannot hold the file's values.
    """
    began = time.perf_counter()
    held = held_by(model)
    refuse_unwritable(held)
    file = read_model(path)
    findings, skipped = check_whole(Path(path)) if verify else ([], [])
    chosen = choose(file, held.shapes, prefix, key=key)
    shapes = {n: shape for n, shape in chosen.shapes.items() if n not in held.others}
    match = match_keys(held.shapes, shapes, held.same)
    if match.is_nothing and match.better is None:
        match = replace(match, better=_anywhere(file, held))
    findings += _judge(match, str(path), strict=strict, hooks=held.renames)
    _refuse(findings, str(path))
    staged = {
        name: stage(file, chosen.tensors[name], held.tensors[name].dtype) for name in match.arrived
    }
    clashes = _clashes(held, staged)
    _refuse(clashes, str(path))
    planned = (
        plan_optimizer(optimizer, file, chosen, held, key=optimizer_key, strict=strict)
        if optimizer is not None
        else None
    )
    if planned is not None:
        findings += planned.findings
        _refuse(planned.findings, str(path))
    num_optimizer = None
    if planned is not None:
        num_optimizer = planned.apply()
        skipped += planned.skipped
    _write(held, staged)
    _refuse(_prove(held, staged), str(path), written=True)
    checked = [Checked(what="tensors proved to have arrived", count=len(staged))]
    if num_optimizer is not None:
        checked.append(
            Checked(what="parameters whose optimizer state arrived", count=num_optimizer)
        )
    skipped += [
        Skipped(what=f"{item.what}", why=item.why, promised=item.promised) for item in file.skipped
    ]
    skipped += [
        Skipped(what=name, why="it is state that only the module's own code loads; it was not")
        for name in held.others
    ]
    verdict = Verdict(
        command="load_into",
        target=(str(path),),
        findings=tuple(findings),
        coverage=Coverage(checked=tuple(checked), skipped=tuple(skipped)),
        stats={
            "bytes": sum(item.value.nbytes for item in staged.values()),
            "seconds": time.perf_counter() - began,
        },
    )
    return Arrival(
        path=str(path),
        verdict=verdict,
        loaded=match.arrived,
        missing=match.missing,
        unexpected=match.unexpected,
        mismatched={name: _shapes(pair) for name, pair in match.mismatched.items()},
        tied=match.tied,
        explained={**match.explained, **dict.fromkeys(match.head, _HEAD)},
        converted={name: item.conversion for name, item in staged.items() if item.conversion},
        prefix=_named(chosen),
        suggestion=suggestion(match),
        optimizer=num_optimizer,
        values=file.values,
        expected={
            name: (item.expected, dtype_name(item.value.dtype)) for name, item in staged.items()
        },
        model=weakref.ref(model),
    )


_OTHER_FILE = "Load the file that belongs to this model; strict=False loads what fits."
_HOOKS = (
    "Load the file that belongs to this model. Its modules have code of their own for a load, "
    "which may rename or unpack what is in the file and is not run here: `model.load_state_dict` "
    "runs it."
)
_HEAD = "a head of the model's own, most likely new on purpose; it was not loaded"


def _anywhere(file: Model, held: Held) -> Any:
    """Look for a rename over all the file's names, where those that were chosen fit nowhere."""
    return best_fit(held.shapes, {tensor.name: tensor.shape for tensor in file.tensors})


def _named(chosen: Chosen) -> str:
    parts = []
    if chosen.container:
        parts.append(f"the state dict under the key `{chosen.container[:-1]}`")
    if not chosen.rename.is_plain:
        parts.append(str(chosen.rename))
    return "; ".join(parts)


def _judge(match: Match, path: str, *, strict: bool, hooks: bool = False) -> list[Finding]:
    """Return the findings about names and shapes; errors where the load is refused.

    Args:
        match: How names and shapes stood to each other.
        path: The file.
        strict: Refuse what does not fit.
        hooks: The model has code of its own that runs in its `load_state_dict`.
    """
    better = suggestion(match)
    evidence = {
        "num_in_file": match.num_stored,
        "num_in_model": match.num_held,
        "num_arrived": len(match.arrived),
        "missing": list(match.really_missing[:64]),
        "unexpected": list(match.really_unexpected[:64]),
        "other_shapes": {n: _shapes(pair) for n, pair in list(match.mismatched.items())[:64]},
        **({"suggestion": better} if better else {}),
    }
    remedy = f"{better[:1].upper()}{better[1:]}." if better else ""
    if not match.arrived:
        what = f"none of the {match.num_stored} tensors in {path} fits the model's {match.num_held}"
        shown = (
            f" (in the file {listed(match.unexpected[:3])}; in the model "
            f"{listed(match.missing[:3])})"
            if match.unexpected
            else ""
        )
        return [
            rule("FIL116").finding(
                f"{what}{shown}",
                where=Location(path=path, link=Link.LOAD),
                evidence=evidence,
                remedy=remedy or "Name the file that belongs to this model.",
                severity=Severity.ERROR,
            )
        ]
    if match.is_whole or (not strict and match.fills_the_model):
        return []
    parts = []
    for names, what in (
        (match.really_missing, "of the model are not in the file"),
        (match.really_unexpected, "of the file have no place in the model"),
        ([f"{n} {_shapes(pair)}" for n, pair in match.mismatched.items()], "have other shapes"),
    ):
        if names:
            parts.append(f"{len(names)} {what} ({listed(names)})")
    first = (*match.mismatched, *match.really_missing, *match.really_unexpected)[0]
    message = f"{len(match.arrived)} of {match.num_held} tensors fit; {'; '.join(parts)}"
    return [
        rule("FIL116").finding(
            message,
            where=Location(path=path, parameter=first, link=Link.LOAD),
            evidence=evidence,
            remedy=remedy or (_HOOKS if hooks else _OTHER_FILE),
            severity=Severity.ERROR if strict else Severity.WARNING,
        )
    ]


def _clashes(held: Held, staged: dict[str, Staged]) -> list[Finding]:
    """Find names that share one memory in the model, for which the file has different values."""
    first: dict[str, str] = {}
    findings = []
    for name, item in staged.items():
        other = first.setdefault(held.same[name], name)
        if staged[other].expected != item.expected:
            findings.append(
                rule("FIL116").finding(
                    f"{other} and {name} are one tensor in the model (tied) and two different ones "
                    "in the file: only one of them could arrive",
                    where=Location(parameter=name, link=Link.LOAD),
                    evidence={"tied_to": other},
                    remedy="Untie them in the model's configuration, or load another file.",
                    severity=Severity.ERROR,
                )
            )
    return findings


def _write(held: Held, staged: dict[str, Staged]) -> None:
    with torch.no_grad():
        for name, item in staged.items():
            tensor = held.tensors[name]
            if tensor.is_inference():
                with torch.inference_mode():
                    tensor.copy_(item.value)
            else:
                tensor.copy_(item.value)


def _prove(held: Held, staged: dict[str, Staged]) -> list[Finding]:
    """Return a finding for each tensor that does not hold what was written into it."""
    return [
        rule("FIL116").finding(
            f"{name} does not hold what was written into it: its memory, or another tensor in it, "
            "is at fault",
            where=Location(parameter=name, link=Link.LOAD, device=str(held.tensors[name].device)),
            evidence={"expected": str(item.expected), "found": str(found)},
            remedy="Load again; where it repeats, test the machine's memory.",
            severity=Severity.ERROR,
        )
        for name, item in staged.items()
        if (found := tensor_tree(held.tensors[name])) != item.expected
    ]


def _refuse(findings: list[Finding], path: str, *, written: bool = False) -> None:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        end = "" if written else "; nothing was loaded"
        raise FindingsError(
            f"{errors[0].rule} {errors[0].message}{more}{end}",
            where="" if path in errors[0].message else path,
            todo=_clause(errors[0].remedy),
            findings=errors,
        )


def _clause(sentence: str) -> str:
    text = sentence.rstrip(".")
    return text[:1].lower() + text[1:]


def _shapes(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    return f"{list(pair[0])} in the file, {list(pair[1])} in the model"
