"""Which trials a drill consists of: drawn from its seed, the same ones each time."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.errors import UsageError
from everybit.drill.subjects import DTYPES, SUBJECTS
from everybit.drill.training_run import STEPS
from everybit.drill.trial import RANKED, SHAPES, Shape, Site, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Subjects that have a site; all of them where it is not listed.
_HAVING = {Site.BUFFER: ("gpt", "cnn")}
#: Sites whose dtype is not the model's choice: a script has them once.
_ONE_DTYPE = frozenset({Site.CLEAN, Site.LOSS, Site.BATCH, Site.RNG})
#: Faults strike in these steps: moments and what a step before left are there.
_FIRST, _LAST = 2, STEPS - 4
#: Steps of a clean trial.
_CLEAN_STEPS = 40
#: Ranks of the built-in models: the fewest of which one is in the minority.
RANKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A drill before it is carried out.

    Attributes:
        seed: What everything is drawn from.
        faults: Trials in each cell of the table.
        trials: All of them, in the order of the table.
        settings: Of the Guard.
    """

    seed: int
    faults: int
    trials: tuple[Trial, ...]
    settings: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Name of the plan: results of another one are not its results."""
        told = [self.seed, dict(self.settings), [trial.to_json() for trial in self.trials]]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def plan_builtin(
    *,
    faults: int,
    seed: int,
    settings: Mapping[str, Any],
    sites: Sequence[Site] | None = None,
    dtypes: Sequence[str] = tuple(DTYPES),
    subjects: Sequence[str] = tuple(SUBJECTS),
) -> Plan:
    """Plan a drill on the built-in models: `faults` trials a cell, the models taking turns.

    Args:
        faults: Trials of each site, dtype and shape.
        seed: The same seed plans the same trials.
        settings: Of the Guard.
        sites: Sites to strike; all where None. Clean trials are always there.
        dtypes: Names in `DTYPES`.
        subjects: Names in `SUBJECTS`.

    Raises:
        UsageError: Fewer than one fault a cell.
    """
    if faults < 1:
        raise UsageError(f"{faults} faults in each cell", todo="ask for 1 or more")
    trials = []
    for site, shapes in SHAPES.items():
        if sites is not None and site not in (*sites, Site.CLEAN):
            continue
        having = [name for name in subjects if name in _HAVING.get(site, subjects)]
        ranks = RANKS if site in RANKED else 1
        if site is Site.CLEAN and (sites is None or any(one in RANKED for one in sites)):
            trials += [
                _draw(seed, name, dtypes[0], site, shapes[0], 0, ranks=RANKS) for name in having
            ]
        # A job of several processes takes long: one dtype stands for all.
        chosen = dtypes[:1] if ranks > 1 else dtypes
        for dtype in chosen if having else ():
            for number, shape in enumerate(shapes):
                count = len(having) if site is Site.CLEAN else faults
                for index in range(count):
                    subject = having[(number + index) % len(having)]
                    trials.append(_draw(seed, subject, dtype, site, shape, index, ranks=ranks))
    return Plan(seed=seed, faults=faults, trials=tuple(trials), settings=dict(settings))


def plan_script(
    *,
    name: str,
    dtypes: Sequence[str],
    sites: Sequence[Site],
    faults: int,
    seed: int,
    steps: int,
    settings: Mapping[str, Any],
    ranks: int = 1,
) -> Plan:
    """Plan a drill on a script.

    Args:
        name: Of the script.
        dtypes: Those that its model computes in, or has weights of.
        sites: Sites to strike.
        faults: Trials of each site, dtype and shape.
        seed: The same seed plans the same trials.
        steps: Steps of each trial.
        settings: Of the Guard.
        ranks: Processes that train together; one of them is struck.

    Raises:
        UsageError: Fewer than one fault a cell, or too few steps.
    """
    if faults < 1:
        raise UsageError(f"{faults} faults in each cell", todo="ask for 1 or more")
    if steps < _FIRST + 2:
        raise UsageError(f"{steps} steps a trial", todo=f"ask for {_FIRST + 2} or more")
    trials = [
        _draw(seed, name, dtype, site, shape, index, last=max(_FIRST, steps - 3), ranks=ranks)
        for site in sites
        for dtype in (dtypes[:1] if site in _ONE_DTYPE else dtypes)
        for shape in SHAPES[site]
        for index in range(faults)
    ]
    return Plan(
        seed=seed,
        faults=faults,
        trials=tuple(trials),
        settings={**settings, "steps": steps, **({"ranks": ranks} if ranks > 1 else {})},
    )


def _draw(
    seed: int,
    subject: str,
    dtype: str,
    site: Site,
    shape: Shape,
    index: int,
    *,
    last: int = _LAST,
    ranks: int = 1,
) -> Trial:
    rng = random.Random(f"{seed} {subject} {dtype} {site} {shape} {index}")
    clean = site is Site.CLEAN
    steps = STEPS if ranks > 1 else _CLEAN_STEPS
    return Trial(
        subject=subject,
        dtype=dtype,
        site=site,
        shape=shape,
        step=steps if clean else rng.randint(_FIRST, last),
        seed=rng.getrandbits(31),
        index=index,
        ranks=ranks,
    )
