"""CMP701 and CMP703: a call computed again gives other bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Finding, Location, Severity, place_elements
from everybit.core.link import Link
from everybit.core.mismatch import Cause, Mismatch, Unrepeatable
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_NAMED: Final = 8
_SAYS: Final = {True: "may be right", False: "wrong", None: "not known"}
_SURE: Final = (Cause.TRANSIENT, Cause.REPEAT_ERRED, Cause.PERSISTENT)
_RACE: Final = (
    "A fault of software, not of the device: a kernel reads what another has not written yet (a "
    "stream of one's own, a non-blocking copy whose source is written again, a custom kernel). "
    "TORCH_CUDA_SANITIZER=1 names the access; CUDA_LAUNCH_BLOCKING=1 hides it."
)
_PERSISTENT: Final = (
    "The device gives the same wrong result again and again: take it out of service, test it, and "
    "go back to a checkpoint from before it was used."
)


def weighed(found: Mismatch) -> Mismatch:
    """Return a mismatch with what other devices say of it in its counts and its cause.

    One that speaks for the repeats counts for them. One that has another result than the repeats
    speaks for a device that goes on erring: `persistent`, whatever came first. A bound that the
    first computation breaks and the repeats keep makes a transient fault of what was unproven.
    """
    num_for, num_against, cause = found.num_for, found.num_against, found.cause
    for each in found.opinions:
        if not each.tells:
            continue
        if each.repeats is False:
            num_against += 1
            bounded = each.proven and not each.exact
            if bounded or (cause is Cause.TRANSIENT and each.first is not False):
                cause = Cause.PERSISTENT
        else:
            num_for += 1
            if each.proven and each.repeats and cause is Cause.UNPROVEN and not each.exact:
                cause = Cause.TRANSIENT
    return replace(found, num_for=num_for, num_against=num_against, cause=cause)


def judge_mismatch(found: Mismatch) -> Finding:
    """Return CMP701, or CMP703 where the model does not repeat by design."""
    where = Location(
        step=found.step,
        rank=found.rank,
        link=found.link,
        module=found.module,
        parameter=found.parameter,
        device=found.device,
        **(place_elements(found.elements) if found.elements else {}),
    )
    evidence = _evidence(found)
    place = f"module {found.module}" if found.module else "the model's own code"
    place = "the model" if found.whole else place
    kind = "gradient" if found.link is Link.GRAD else "output"
    operation = f" ({found.operation})" if found.operation else ""
    if found.cause is Cause.NONDETERMINISTIC:
        return rule("CMP703").finding(
            f"{place}{operation} gives another {kind} each time: it does not repeat",
            where=where,
            evidence=evidence,
        )
    if found.cause is Cause.CHANGED_AFTER:
        return rule("CMP701").finding(
            f"{found.tensor} of the model's call in step {found.step} changed in memory before "
            f"backward had ended, and nothing wrote to it through torch; {_extent(found)}",
            where=where,
            evidence=evidence,
            remedy="If your own code writes there past torch (`.data`, NumPy), leave it; if not, "
            "the loss of this step is wrong: go back to a checkpoint, test the device's memory.",
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
        )
    message = (
        f"the {kind} of {place}{operation} at step {found.step} is another one when it is computed"
        f" again: {found.num_for} computations agree, {found.num_against} does not"
    )
    extent = _extent(found)
    if extent:
        message += f"; {extent}"
    remedy = ""
    if found.cause is Cause.REPEAT_ERRED:
        message += "; the step is right, one of its repeats was not"
        remedy = "Nothing is lost: the repeat erred. Test the device all the same."
    if found.cause is Cause.UNPROVEN:
        message += "; this model has not repeated exactly before in this run"
        remedy = (
            "Something that only the first call does (a cache that is filled, a kernel that is "
            "chosen) gives this too. Where it comes again, take the device out of service."
        )
    if found.cause is Cause.RACE:
        message += "; it repeats where each operation is waited for: a race of software"
        remedy = _RACE
    if found.cause is Cause.PERSISTENT:
        message += f"; another device has another result: {_told_by(found, repeats=False)}"
        remedy = _PERSISTENT
    elif told := _told_by(found, repeats=True):
        message += f"; {told} agrees with the repeats"
    sure = found.cause in _SURE
    return rule("CMP701").finding(
        message,
        where=where,
        evidence=evidence,
        remedy=remedy,
        severity=None if sure else Severity.WARNING,
        certainty=Certainty.PROOF if sure and _is_proven(found) else Certainty.STRONG,
    )


def _is_proven(found: Mismatch) -> bool:
    against = [each for each in found.opinions if each.repeats is False]
    return found.cause is not Cause.PERSISTENT or any(each.proven for each in against)


def judge_unrepeatable(found: Unrepeatable, *, step: int, rank: int, cost: float | None) -> Finding:
    """Return CMP703 for an operation that does not repeat.

    Args:
        found: The operation.
        step: Updates finished or skipped before it.
        rank: Rank of the process.
        cost: Time of a step of the model with deterministic algorithms, over that without.
    """
    place = f"module {found.module}" if found.module else "the model's own code"
    link = Link.GRAD if found.backward else Link.FORWARD
    passing = "backward" if found.backward else "forward"
    helps = " or ".join(found.repeats_with)
    message = f"{found.operation} of {place} ({passing}) gives other bits from the same inputs"
    message += f"; with {helps} it repeats" if helps else "; no setting tried makes it repeat"
    evidence: dict[str, Any] = {
        "verdict": str(Cause.NONDETERMINISTIC),
        "operation": found.operation,
        "preflight": True,
        "num_repeats": found.num_repeats,
        "repeats_with": list(found.repeats_with),
    }
    if cost is not None:
        evidence["cost_of_determinism"] = round(cost, 3)
    return rule("CMP703").finding(
        message,
        where=Location(step=step, rank=rank, link=link, module=found.module),
        evidence=evidence,
    )


def _told_by(found: Mismatch, *, repeats: bool) -> str:
    """Return the devices that speak for the repeats, or against them."""
    names = [each.device for each in found.opinions if each.tells and each.repeats is repeats]
    return ", ".join(names)


def _evidence(found: Mismatch) -> Mapping[str, Any]:
    evidence: dict[str, Any] = {
        "verdict": str(found.cause),
        "call": found.call,
        "computations_that_agree": found.num_for,
        "computations_that_do_not": found.num_against,
        "repeated_exactly_before": found.num_exact,
    }
    for each in found.opinions:
        evidence.setdefault("elsewhere", {})[each.device] = {
            "first": _SAYS[each.first],
            "repeats": _SAYS[each.repeats],
            "proven": each.proven,
            "how": each.how,
        }
    if found.not_asked:
        evidence["not_computed_elsewhere"] = dict(found.not_asked)
    if found.operation:
        evidence["operation"] = found.operation
    if found.outputs:
        evidence["outputs"] = list(found.outputs[:_MAX_NAMED])
        evidence["num_outputs"] = len(found.outputs)
    if found.parameters:
        evidence["gradients_of"] = list(found.parameters[:_MAX_NAMED])
        evidence["num_gradients"] = len(found.parameters)
    if found.num_elements:
        evidence |= {
            "tensor": found.tensor,
            "dtype": found.dtype,
            "shape": list(found.shape),
            "num_elements": found.num_elements,
            "num_bits": found.num_bits,
            "changes": [change.to_json() for change in found.changes],
        }
        evidence |= dict(found.pattern or {})
    return evidence


def _extent(found: Mismatch) -> str:
    if not found.num_elements:
        return ""
    if found.num_elements == 1 and found.changes:
        change = found.changes[0]
        bits = ", ".join(map(str, change.bits))
        word = "bit" if len(change.bits) == 1 else "bits"
        return (
            f"element {change.element} of {found.tensor}, {word} {bits}: {change.after!r} instead "
            f"of {change.before!r}"
        )
    pattern = f" ({found.pattern['pattern']})" if found.pattern else ""
    return f"{found.num_elements} elements of {found.tensor}{pattern}"
