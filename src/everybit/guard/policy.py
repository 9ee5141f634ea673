"""Policies: what a Guard does about a finding."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from everybit.core.config import OnFinding
from everybit.core.errors import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding

    Policy = Callable[[Sequence[Finding]], None]

LOGGER = logging.getLogger("everybit")

#: Findings of one moment that are logged one by one.
MAX_LOGGED = 5


def record(_findings: Sequence[Finding]) -> None:
    """Say nothing: the findings are on record."""


def warn(findings: Sequence[Finding]) -> None:
    """Log each finding as a warning; many at once are folded."""
    for finding in findings[:MAX_LOGGED]:
        LOGGER.warning("everybit: %s %s", finding.rule, finding.message)
    if len(findings) > MAX_LOGGED:
        LOGGER.warning("everybit: and %d more at this step", len(findings) - MAX_LOGGED)


def stop(findings: Sequence[Finding]) -> None:
    """Raise `StoppedError` out of the training loop."""
    first, *rest = findings or (None,)
    warn(rest)
    raise StoppedError(
        f"{first.rule} {first.message}" if first else "another rank has a finding",
        todo='the run was stopped as asked (on_finding="stop")',
    )


def policy_for(on_finding: OnFinding) -> Policy:
    """Return the policy of a setting.

    Healing is done by the check, and waiting by a `Pauser`; the findings of both are logged.
    """
    policies: dict[OnFinding, Policy] = {
        OnFinding.RECORD: record,
        OnFinding.WARN: warn,
        OnFinding.PAUSE: warn,
        OnFinding.HEAL: warn,
        OnFinding.REWIND: warn,
        OnFinding.STOP: stop,
    }
    return policies[on_finding]
