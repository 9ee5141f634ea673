"""The table of a drill: location, dtype and pattern, and what became of the faults there."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.drill.trial import SHAPES, Fate, Outcome, Shape, Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.drill.plan import Plan

SCHEMA: Final = "everybit.drill/1"
_CONFIDENCE: Final = 0.95
#: Sites that checks at every step test bit for bit: a fault there that strikes once, and changes a
#: bit, must not be missed. What lasts may be wrong in the same way again whenever it is tested.
_EXACT: Final = frozenset(
    str(site)
    for site in (
        Site.WEIGHT,
        Site.BUFFER,
        Site.MOMENT,
        Site.GRADIENT,
        Site.ACTIVATION,
        Site.INPUT_GRADIENT,
        Site.PARAMETER_GRADIENT,
        Site.SAVED,
        Site.CHECKPOINT,
        Site.SENT,
        Site.RECEIVED,
        Site.REPLICA,
    )
)
_LASTING: Final = frozenset({str(Shape.STUCK), str(Shape.INTERMITTENT)})


def table_of(plan: Plan, outcomes: Sequence[Outcome], *, target: str) -> dict[str, Any]:
    """Return the table as plain data, as `--json` prints it.

    `cells` has an entry for each site, dtype and shape, `sites` one for each site; `broken` are the
    cells in which a fault was missed that an exact check at every step promises to catch.

    Args:
        plan: What was asked for.
        outcomes: What came of it, in any order.
        target: What was drilled.
    """
    faulty = [o for o in outcomes if o.trial.site is not Site.CLEAN]
    cells = cells_of(faulty)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "target": target,
        "seed": plan.seed,
        "faults": plan.faults,
        "settings": dict(plan.settings),
        "trials": {
            "asked": len(plan.trials),
            "done": sum(o.fate is not Fate.UNTRIED for o in outcomes),
            "why_not": sorted({o.detail for o in outcomes if o.fate is Fate.UNTRIED})[:3],
        },
        "cells": cells,
        "broken": [
            cell
            for cell in cells
            if cell["missed"] + cell["noted"]
            and cell["site"] in _EXACT
            and cell["shape"] not in _LASTING
        ],
        "sites": [
            {"site": str(site), **_counted([o for o in faulty if o.trial.site is site])}
            for site in SHAPES
            if any(o.trial.site is site for o in faulty)
        ],
        "false_alarms": _false_alarms([o for o in outcomes if o.trial.site is Site.CLEAN]),
        "cost": _cost([o for o in outcomes if o.trial.site is Site.CLEAN]),
    }


def cells_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return one entry for each site, dtype and shape, in the order of the table."""
    cells: dict[tuple[str, str, str], list[Outcome]] = {}
    for one in outcomes:
        key = (str(one.trial.site), one.trial.dtype, str(one.trial.shape))
        cells.setdefault(key, []).append(one)
    order = [str(site) for site in SHAPES]
    shapes = {str(site): [str(shape) for shape in SHAPES[site]] for site in SHAPES}
    dtypes = list(dict.fromkeys(dtype for _, dtype, _ in cells))
    return [
        {"site": site, "dtype": dtype, "shape": shape, **_counted(cells[site, dtype, shape])}
        for site, dtype, shape in sorted(
            cells,
            key=lambda key: (
                order.index(key[0]),
                dtypes.index(key[1]),
                shapes[key[0]].index(key[2]),
            ),
        )
    ]


def _counted(outcomes: list[Outcome]) -> dict[str, Any]:
    fates = Counter(str(o.fate) for o in outcomes)
    caught = [o for o in outcomes if o.fate is Fate.CAUGHT]
    missed = [o for o in outcomes if o.fate in (Fate.MISSED, Fate.NOTED)]
    rules = Counter(o.rules[0] for o in caught if o.rules)
    placed = [o for o in caught if o.placed is not None]
    steps = [o.steps_after for o in caught if o.steps_after is not None]
    return {
        "trials": len(outcomes),
        **{str(fate): fates.get(str(fate), 0) for fate in _FATES},
        "rules": dict(rules.most_common()),
        "steps_after": max(steps, default=None),
        "placed": sum(bool(o.placed) for o in placed),
        "exact": sum(bool(o.exact) for o in caught),
        "same_end": sum(o.same_end for o in caught),
        "loss_change": _worst(missed),
        "details": sorted({o.detail for o in outcomes if o.detail})[:3],
    }


_FATES = (Fate.CAUGHT, Fate.NOTED, Fate.MISSED, Fate.HARMLESS, Fate.RAISED, Fate.ABSENT)


def _worst(outcomes: list[Outcome]) -> float | str | None:
    """Return the largest change of the final loss, relative to the undisturbed one."""
    changes = []
    for one in outcomes:
        if one.loss is None:
            return "not a number"
        if one.clean_loss:
            changes.append(abs(one.loss - one.clean_loss) / abs(one.clean_loss))
    return max(changes, default=None)


def _false_alarms(clean: list[Outcome]) -> dict[str, Any]:
    steps = sum(o.steps for o in clean)
    alarms = sum(o.fate is Fate.ALARM for o in clean)
    return {
        "steps": steps,
        "runs": len(clean),
        "alarms": alarms,
        "rules": sorted({rule for o in clean if o.fate is Fate.ALARM for rule in o.rules}),
        "confidence": _CONFIDENCE,
        "upper_bound": upper_bound(alarms, steps),
    }


def _cost(clean: list[Outcome]) -> dict[str, Any]:
    ratios = [o.seconds / o.bare_seconds for o in clean if o.bare_seconds]
    return {"guarded_over_bare": round(median(ratios), 2) if ratios else None}


def upper_bound(alarms: int, steps: int, confidence: float = _CONFIDENCE) -> float | None:
    """Return the largest rate of alarms a step that the count does not rule out.

    The one-sided bound of Clopper and Pearson (1934): the rate at which so few alarms in so many
    steps would be seen with a chance of `1 - confidence`. With no alarm it is close to
    `3 / steps`. None with no step.

    >>> round(upper_bound(0, 3000), 6)
    0.000998
    """
    if not steps:
        return None
    if alarms >= steps:
        return 1.0
    low, high = alarms / steps, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        if _at_most(alarms, steps, rate) > 1 - confidence:
            low = rate
        else:
            high = rate
    return high


def _at_most(count: int, trials: int, rate: float) -> float:
    """Return the chance of at most `count` in `trials`, each with chance `rate`."""
    term = (1 - rate) ** trials
    total = term
    for k in range(count):
        if rate >= 1 or not isfinite(term):
            return 0.0
        term *= (trials - k) / (k + 1) * rate / (1 - rate)
        total += term
    return total
