"""`everybit.report`: a run's verdict and its page."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit._version import __version__
from everybit.api.attempts import judge_attempts
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import PathError
from everybit.core.verdict import Coverage, Skipped, Verdict
from everybit.detect.run_ended import judge_damage, judge_end
from everybit.detect.samples_across_ranks import judge_samples
from everybit.detect.stalls import judge_stalls
from everybit.ledger import Liveness, open_run
from everybit.ledger.pause import list_pauses
from everybit.report.account import account_of_logs, merge_stats, tell_ranges
from everybit.report.page import render_page
from everybit.report.run_summary import iterate_logs, log_state, summarise_log
from everybit.report.strict_json import verdict_json
from everybit.report.timelines import plan_timelines

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from everybit.core.finding import Finding
    from everybit.ledger import LogReader, RunReader

PAGE_NAME = "report.html"
VERDICT_NAME = "verdict.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `make_report` made: the verdict, and the page where one was asked for."""

    verdict: Verdict
    page: Path | None


def report(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    against: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the page of a run, or of two side by side, and return where it lies.

    Args:
        path: The run folder; the run may still be going, have been killed, or be damaged.
        out: The page's file; `report.html` in the run folder where None, `against.html` of two.
        against: Another run, to compare with as `everybit.diff` does.

    Raises:
        PathError: A folder is no run, or the page cannot be written.
    """
    if against is not None:
        from everybit.api.report_two import compare_on_page

        return compare_on_page(Path(path), Path(against), Path(out) if out is not None else None)
    page = Path(out) if out is not None else Path(path) / PAGE_NAME
    make_report(path, page=page)
    return page


def make_report(
    path: str | os.PathLike[str],
    *,
    page: Path | None,
    clock: Callable[[], float] = time.time,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Judge a run and, where `page` is given, write its page there.

    Args:
        path: The run folder.
        page: Where to write the page; no page where None.
        clock: Wall clock, seconds since the epoch.
        progress: Is told the number of steps read so far of a log, now and then.

    Raises:
        PathError: `path` is no run folder, or the page cannot be written. Whether it can is tested
            before the work begins.
    """
    run = open_run(path)
    if page is not None:
        check_writable(page)
    if page is None:
        return Report(verdict=verdict_of_run(run), page=None)
    logs = list(iterate_logs(run))
    timelines = plan_timelines(logs, _finding_steps(logs))
    paused = _paused(run)
    summaries = [
        summarise_log(
            log,
            timelines,
            newest=log is run.logs(log.rank)[-1],
            paused=(log.rank, log.attempt) in paused,
            progress=progress,
        )
        for log in logs
    ]
    # After the summaries: reading the steps may still find damage.
    verdict = verdict_of_run(run)
    world_size = run.info.get("world_size")
    html = render_page(
        verdict,
        summaries,
        timelines,
        run=str(run.path),
        made_at_s=clock(),
        version=__version__,
        world_size=world_size if type(world_size) is int else None,
    )
    # Arguments and environment of the job are in it: as private as the run folder.
    write_atomically(page, html.encode("utf-8", "backslashreplace"), mode=0o600)
    return Report(verdict=verdict, page=page)


def _finding_steps(logs: Iterable[LogReader]) -> list[int]:
    findings = [finding for log in logs for finding in log.findings]
    findings.sort(key=lambda finding: -finding.severity.rank)
    return [finding.where.step for finding in findings if finding.where.step is not None]


def _paused(run: RunReader) -> set[tuple[int, int]]:
    """Return rank and attempt of the processes that wait to be released."""
    try:
        pauses = list_pauses(run.path)
    except PathError:
        return set()
    return {(p.rank, p.attempt) for p in pauses if p.liveness is not Liveness.GONE}


def verdict_of_run(run: RunReader) -> Verdict:
    """Judge a run by its record: what the guard found, how it ended, whether the record holds.

    Args:
        run: The run, as `everybit.open_run` gives it.

    Returns:
        A verdict with all recorded findings of all ranks and attempts, RUN151 where a log ended
        badly, RUN152 where the record is damaged, and the guard's own account as coverage. Without
        that account it is inconclusive at best.
    """
    findings: list[Finding] = []
    judged: list[tuple[LogReader, bool]] = []
    for rank in run.ranks:
        attempts = run.logs(rank)
        for log in attempts:
            newest = log is attempts[-1]
            judged.append((log, newest))
            scenes = _scenes(log)
            findings += [_placed(finding, log, scenes) for finding in log.findings]
            findings += judge_stalls(log)
            ended = judge_end(log, resumed=not newest)
            if ended is not None:
                findings.append(ended)
    findings += judge_damage(run)
    findings += judge_samples(run)
    findings += judge_attempts(run)
    findings.sort(key=_step)
    return Verdict(
        command="run",
        target=(str(run.path),),
        findings=tuple(findings),
        coverage=account_of_logs(judged) + _waiting(run),
        stats=_stats(run, judged),
    )


def write_verdict(run_folder: str | os.PathLike[str]) -> Verdict:
    """Judge a run and write the verdict to `verdict.json` in its folder, whole or not at all.

    Raises:
        PathError: It is no run folder, or cannot be written.
    """
    verdict = verdict_of_run(open_run(run_folder))
    data = (verdict_json(verdict) + "\n").encode()
    write_atomically(Path(run_folder) / VERDICT_NAME, data, mode=0o600)
    return verdict


def _scenes(log: LogReader) -> dict[str, str]:
    """Return the folders of the scenes that the log tells of, by the ids of their findings."""
    found: dict[str, str] = {}
    for observed in log.observations:
        if observed.kind == "incident":
            folder, ids = observed.data.get("folder"), observed.data.get("findings")
            if isinstance(folder, str) and isinstance(ids, list):
                found.update((str(each), folder) for each in ids)
    return found


def _placed(finding: Finding, log: LogReader, scenes: Mapping[str, str]) -> Finding:
    where, evidence = finding.where, finding.evidence
    if finding.id in scenes and "scene" not in evidence:
        evidence = {**evidence, "scene": scenes[finding.id]}
    if where.rank is None:
        where = replace(where, rank=log.rank)
    if log.attempt and "attempt" not in evidence:
        evidence = {**evidence, "attempt": log.attempt}
    return replace(finding, where=where, evidence=evidence)


def _step(finding: Finding) -> float:
    return float("inf") if finding.where.step is None else finding.where.step


def _waiting(run: RunReader) -> Coverage:
    """Say of a paused run that it waits, and how it goes on."""
    told = shlex.quote(str(run.path))
    return Coverage(
        skipped=tuple(
            Skipped(
                what=f"the rest of rank {pause.rank}",
                why=f"paused at step {pause.step}; `everybit release {told}` lets it go on",
            )
            for pause in run.pauses
        )
    )


def _stats(run: RunReader, judged: list[tuple[LogReader, bool]]) -> dict[str, Any]:
    stats = merge_stats(log.stats for log, _ in judged)
    held = [log for log, _ in judged if log.num_steps]
    ranges = [log.step_range for log in held]
    states = dict.fromkeys(str(log_state(log)) for log, newest in judged if newest)
    own: dict[str, Any] = {
        "state": ", ".join(states) or "no log",
        "ranks": len(run.ranks),
        "attempts": max((log.attempt + 1 for log, _ in judged), default=0),
        # Ranks do the same steps; attempts add to one another.
        "steps": max(
            (sum(log.num_steps for log in run.logs(rank)) for rank in run.ranks), default=0
        ),
    }
    if run.pauses:
        own["state"] = f"paused at step {min(pause.step for pause in run.pauses)}"
    if ranges:
        own["first_step"] = min(steps.start for steps in ranges)
        own["last_step"] = max(steps.stop - 1 for steps in ranges)
    if len({log.attempt for log in held}) > 1:
        own["steps_by_attempt"] = tell_ranges(
            (log.attempt, log.step_range.start, log.step_range.stop - 1) for log in held
        )
    return {**stats, **own}
