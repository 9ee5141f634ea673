"""Hold what a Guard said against the truth about a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.finding import Finding, Location, Severity
from everybit.drill.trial import Fate, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.change import Change
    from everybit.drill.training_run import Trained
    from everybit.drill.trial import Trial

    Truth = Sequence[tuple[Location, tuple[Change, ...]]]


def outcome_of(
    trial: Trial,
    findings: Sequence[Finding],
    *,
    truth: Truth,
    trained: Trained,
    clean_words: Sequence[int],
    clean_loss: float | None,
    raised: str,
    absent: str,
) -> Outcome:
    """Return what became of a fault.

    Args:
        trial: What was tried.
        findings: All findings of the run, which had this one fault.
        truth: Place and changed elements of each time it struck, in order.
        trained: The bits of the run.
        clean_words: Those of the undisturbed run, step by step.
        clean_loss: Its last loss.
        raised: The error that ended the run, or "".
        absent: Why the fault could not be, or "".
    """
    told: dict[str, Any] = {
        "trial": trial,
        "num_elements": sum(len(changes) for _, changes in truth),
        "where": truth[0][0].to_json() if truth else None,
        "loss": trained.loss,
        "clean_loss": clean_loss,
        "steps": len(trained.words),
        "seconds": trained.seconds,
        "detail": raised or absent,
    }
    if not truth:
        return Outcome(fate=Fate.ABSENT, **told)
    severe = [f for f in findings if f.severity is not Severity.NOTE]
    heard = severe or list(findings)
    same = list(trained.words) == list(clean_words)
    if severe:
        fate = Fate.CAUGHT
    elif raised:
        fate = Fate.RAISED
    elif heard:
        fate = Fate.NOTED
    else:
        fate = Fate.HARMLESS if same else Fate.MISSED
    first = truth[0][0].step or 0
    steps = [f.where.step - first for f in heard if f.where.step is not None]
    right = [f for f in severe if any(names(f, where) for where, _ in truth)]
    exact = None
    if any(elements_of(f.where) for f in right):
        struck = [frozenset(change.element for change in changes) for _, changes in truth]
        exact = any(elements_of(f.where) in struck for f in right)
    return Outcome(
        fate=fate,
        rules=tuple(dict.fromkeys(f.rule for f in heard)),
        steps_after=max(0, min(steps)) if steps else None,
        placed=bool(right) if severe else None,
        exact=exact,
        same_end=list(trained.words[-1:]) == list(clean_words[-1:]),
        **told,
    )


def names(finding: Finding, where: Location) -> bool:
    """Whether a finding names the tensor, or the module, that was hit."""
    found = finding.where
    if where.rank is not None and found.rank not in (None, where.rank):
        return False
    if where.parameter is not None and found.parameter is not None:
        return (found.parameter, found.tensor or "") == (where.parameter, where.tensor or "")
    return found.module is not None and found.module == (where.module or "")


def elements_of(where: Location) -> frozenset[int]:
    """Return the elements that a place lists."""
    if where.elements is not None:
        return frozenset(where.elements)
    return frozenset(e for start, end in where.element_ranges or () for e in range(start, end))


def outcome_of_clean(
    trial: Trial,
    findings: Sequence[Finding],
    *,
    trained: Trained,
    clean_words: Sequence[int],
    clean_loss: float | None,
    bare_seconds: float,
    raised: str = "",
) -> Outcome:
    """Return what became of a run without a fault: an alarm, where anything but a note was told.

    Args:
        trial: What was tried.
        findings: All findings of the run.
        trained: The bits of the guarded run.
        clean_words: Those of the bare one, step by step.
        clean_loss: Its last loss.
        bare_seconds: How long it took.
        raised: The error that ended the guarded run, or "".
    """
    same = trained.words == clean_words
    alarms = [finding for finding in findings if finding.severity is not Severity.NOTE]
    return Outcome(
        trial=trial,
        fate=Fate.CLEAN if same and not alarms and not raised else Fate.ALARM,
        rules=tuple(dict.fromkeys(finding.rule for finding in findings)),
        same_end=same,
        loss=trained.loss,
        clean_loss=clean_loss,
        steps=len(trained.words),
        seconds=trained.seconds,
        bare_seconds=bare_seconds,
        detail=raised or ("" if same else "the guarded run has other bits than the bare one"),
    )
