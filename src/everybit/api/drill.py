"""`everybit.drill`: break a training on purpose, many times, and tell what is caught."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.drill.executor import Executor
    from everybit.drill.plan import Plan

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """What a drill showed.

    Attributes:
        table: As plain data: what `everybit drill --json` prints.
        page: The page, where one was asked for.
    """

    table: dict[str, Any]
    page: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was missed that exact checks promise, and no alarm was false."""
        return not self.table["broken"] and not self.table["false_alarms"]["alarms"]

    @property
    def complete(self) -> bool:
        """Whether every trial was carried out."""
        return bool(self.table["trials"]["done"] == self.table["trials"]["asked"])


def drill(
    target: str | None = None,
    args: Sequence[str] = (),
    *,
    faults: int = 4,
    seed: int = 0,
    workers: int | None = None,
    steps: int = 12,
    sites: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    closure: bool = False,
    ranks: int = 1,
    results: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = lambda *_: None,
) -> DrillResult:
    """Carry out a drill: many short trainings under a Guard, each with one fault in it.

    Args:
        target: A training script; the built-in models where None.
        args: What the script finds in `sys.argv[1:]`.
        faults: Trials of each location, dtype and pattern.
        seed: The same seed gives the same trials, and the same table.
        workers: Processes at once; one a core where None.
        steps: Of the script's training in each trial.
        sites: Locations to strike; all where empty.
        dtypes: Of the built-in models, or of the script's tensors; all where empty.
        closure: Train the built-in models through `guard.step`, under the policy `rewind`: what is
            found is undone, and the step is computed again.
        ranks: Processes as which the script trains, as `torchrun` would start them; each fault is
            one rank's. The built-in models have faults of ranks in any case.
        results: A file that keeps each outcome: asked again with the same options, the drill goes
            on where it was ended.
        out: Where to write the page.
        progress: Called with the number of trials done and of all.

    Raises:
        UsageError: Something is asked for that there is not, the script did not train, or the
            file of results is another drill's.
        PathError: Something cannot be read or written.
    """
    from everybit.drill.results import Results
    from everybit.drill.table import table_of

    page = Path(out) if out is not None else None
    if page is not None:
        check_writable(page)
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers", todo="ask for 1 or more")
    count = workers or os.cpu_count() or 1
    _check(sites, dtypes)
    if closure and target is not None:
        raise UsageError(
            "a script's own loop has no closure form",
            where=target,
            todo="leave out --closure; docs/rewind.md shows how a loop is changed to have one",
        )
    if ranks < 1 or (ranks > 1 and target is None):
        raise UsageError(
            f"{ranks} ranks" if ranks < 1 else "--ranks without a script",
            todo="name a script that trains on several ranks, and 2 or more of them",
        )
    with ExitStack() as stack:
        if target is None:
            plan, executor = _builtin(faults, seed, count, sites, dtypes, closure)
        else:
            from everybit.api.drill_script import prepare

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="everybit-drill-"))
            plan, executor = prepare(
                target, args, faults=faults, seed=seed, workers=count, steps=steps,
                sites=sites, dtypes=dtypes, ranks=ranks, folder=Path(folder),
            )  # fmt: skip
        kept = stack.enter_context(Results(Path(results) if results is not None else None, plan))
        waiting = [trial for trial in plan.trials if trial.key not in kept.outcomes]
        progress(len(plan.trials) - len(waiting), len(plan.trials))
        for outcome in executor.map(waiting):
            kept.add(outcome)
            progress(len(kept.outcomes), len(plan.trials))
        # In the order of the plan: results come in any.
        outcomes = [kept.outcomes[t.key] for t in plan.trials if t.key in kept.outcomes]
    table = table_of(plan, outcomes, target=target or "the built-in models")
    if page is not None:
        from everybit.report.drill_html import render_drill_page

        write_atomically(page, render_drill_page(table, made_at_s=time.time()).encode())
    return DrillResult(table=table, page=page)


def _builtin(
    faults: int,
    seed: int,
    workers: int,
    sites: Sequence[str],
    dtypes: Sequence[str],
    closure: bool,
) -> tuple[Plan, Executor]:
    from everybit.drill.executor import LocalProcesses
    from everybit.drill.plan import plan_builtin
    from everybit.drill.subjects import DTYPES
    from everybit.drill.trial import Site
    from everybit.drill.trying import CLOSURE, SETTINGS
    from everybit.drill.worker import SETTINGS_VARIABLE

    plan = plan_builtin(
        faults=faults,
        seed=seed,
        settings=(settings := CLOSURE if closure else SETTINGS),
        sites=[Site(site) for site in sites] or None,
        dtypes=tuple(dtypes) or tuple(DTYPES),
    )
    environment = {SETTINGS_VARIABLE: json.dumps(settings)}
    return plan, LocalProcesses(workers, environment=environment)


def _check(sites: Sequence[str], dtypes: Sequence[str]) -> None:
    """Refuse names that there are not."""
    from everybit.drill.subjects import DTYPES
    from everybit.drill.trial import Site

    for given, known, what in ((sites, list(Site), "location"), (dtypes, list(DTYPES), "dtype")):
        for name in given:
            if name not in known:
                raise UsageError(f"no {what} {name!r}", todo=f"choose from {', '.join(known)}")
