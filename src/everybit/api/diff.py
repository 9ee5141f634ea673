"""`diff`: where two runs, or two model files or folders, part."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.api.diff_code import with_lines
from everybit.api.diff_evaluations import compare_run_evaluations
from everybit.api.diff_files import diff_files
from everybit.api.diff_issues import as_values, findings_of, one_sided
from everybit.api.diff_shards import shards_of, wholes_of
from everybit.api.label_maps import label_maps_of
from everybit.api.read_files import read_files_of
from everybit.core.divergence import DivergenceKind
from everybit.core.errors import PathError, UsageError
from everybit.core.link import Link
from everybit.core.verdict import Coverage, Skipped, Verdict
from everybit.diff.determinism import judge_determinism

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from everybit.core.samples import SampleRecord
    from everybit.diff.outcome import Outcome
    from everybit.diff.side import RankSide, RunSide, SealedStep
    from everybit.ledger import LogReader, RunReader

#: Kinds that operations which do not repeat can be taken for.
_UNEXPLAINED: Final = (DivergenceKind.NOISE, DivergenceKind.UNKNOWN)


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    progress: Callable[[int], None] | None = None,
    zoom: bool = False,
    zooming: Callable[[str, int, int], None] = lambda *_: None,
) -> Verdict:
    """Find the first value at which two runs part, or the tensors that two files differ in.

    Args:
        a: A run folder, or a model file or a folder of them.
        b: Another of the same sort.
        progress: Told the bytes read, of files and folders.
        zoom: Of runs: run their programs again up to the step at which they part, as far as that
            can be done here, and find the first operation that reads or gives other bits. What
            they print and write is kept apart, and dropped.
        zooming: Told which run is computed again, how many steps are done, and of how many.

    Returns:
        The verdict. `first` is the first value that parts with its kind, None where none does;
        `explained_by` lists differences of environment, code and configuration that precede it.
        Of files and folders, `comparison` holds the class of the whole, a headline, and every
        tensor that differs.

    Raises:
        PathError: A path cannot be read, or holds neither a run nor a model file.
        UsageError: One is a run and the other is not.
        DamagedError: A model file is damaged so that nothing in it can be compared.
    """
    began = time.perf_counter()
    paths = Path(a), Path(b)
    sorts = [is_run(path) for path in paths]
    if sorts[0] is not sorts[1]:
        run, other = paths if sorts[0] else paths[::-1]
        raise UsageError(
            f"{run} is a run and {other} is not", todo="give two runs, or two files or folders"
        )
    if zoom and not sorts[0]:
        raise UsageError("only runs are computed again, not files", todo="leave out --zoom")
    if sorts[0]:
        outcome = _diff_runs(*paths, zooming=zooming if zoom else None)
    else:
        outcome = diff_files(*paths, progress=progress)
    seconds = round(time.perf_counter() - began, 3)
    return Verdict(
        command="diff",
        target=(str(a), str(b)),
        findings=outcome.findings,
        coverage=outcome.coverage,
        stats={**outcome.stats, "seconds": seconds},
        first=outcome.first,
        has_first=True,
        explained_by=outcome.explained_by,
        comparison=outcome.comparison,
    )


def is_run(path: Path) -> bool:
    """Whether a path is a run folder.

    Raises:
        PathError: It cannot be looked at.
    """
    try:
        path.stat()
        if not path.is_dir():
            return False
        return (path / "run.json").exists() or any(path.glob("rank-*.attempt-*.log"))
    except OSError as error:
        raise PathError.from_os_error(error, path) from error


def _diff_runs(a: Path, b: Path, *, zooming: Callable[[str, int, int], None] | None) -> Outcome:
    from everybit.diff.runs import diff_runs
    from everybit.ledger import open_run

    runs = open_run(a), open_run(b)
    sides = _run_side(runs[0], "A", a), _run_side(runs[1], "B", b)
    environments = sides[0].environment, sides[1].environment
    issues = one_sided(*environments)
    outcome = diff_runs(*sides, issues=as_values(issues, *environments))
    if zooming is not None:
        from everybit.api.zoom import zoom

        readers = dict(zip("AB", runs, strict=True))
        outcome = zoom(
            outcome,
            *sides,
            lambda side, rank, step: readers[side].log(rank).step(step),
            progress=zooming,
        )
    if outcome.first is not None and outcome.first.kind in _UNEXPLAINED:
        # Of such runs the first difference may be no more than that.
        note = judge_determinism(sides[0].environment, sides[1].environment, parted=False)
        outcome = replace(outcome, findings=(*outcome.findings, *((note,) if note else ())))
    told = findings_of(issues, parted=outcome.first is not None)
    outcome = replace(
        outcome,
        findings=(*outcome.findings, *told),
        explained_by=with_lines(outcome.explained_by, *sides),
    )
    evaluation = compare_run_evaluations(*runs)
    if evaluation is not None:
        outcome = replace(outcome, comparison={"evaluation": evaluation})
    # Asked only now: damage inside an intact frame shows once it has been read.
    skipped = [skip for run, side in zip(runs, "AB", strict=True) for skip in _not_read(run, side)]
    if a.samefile(b):
        why = "A and B are one folder: a record agrees with itself, whatever the run computed"
        skipped.append(Skipped(what="another run", why=why, promised=False))
    return replace(outcome, coverage=outcome.coverage + Coverage(skipped=tuple(skipped)))


def _run_side(run: RunReader, name: str, path: Path) -> RunSide:
    from everybit.diff.side import RunSide

    logs = {rank: run.log(rank) for rank in run.ranks}
    header = next((log.header for log in logs.values() if log.header), {})
    return RunSide(
        name=name,
        path=str(path),
        ranks={rank: _rank_side(log) for rank, log in logs.items()},
        environment=header.get("environment") or {},
        config=header.get("config") or {},
        world_size=_world_size(header),
        command=tuple(map(str, header.get("command") or ())),
        findings=tuple(finding for log in logs.values() for finding in log.findings),
        read_files=read_files_of(logs.values()),
        evaluates=_evaluates(logs),
        label_maps=_label_maps(logs),
    )


def _label_maps(logs: Mapping[int, LogReader]) -> dict[str, Mapping[str, int]]:
    """Return the label maps on record, the first rank's of each."""
    found: dict[str, Mapping[str, int]] = {}
    for log in logs.values():
        for (loader, attribute), numbers in label_maps_of(log).items():
            found.setdefault(f"{loader}.{attribute}", numbers)
    return found


def _evaluates(logs: Mapping[int, LogReader]) -> bool | None:
    """Return whether a run answered and updated nothing; None where it has no steps."""
    links = {link for log in logs.values() for link in log.links}
    if links & {Link.UPDATE, Link.GRAD}:
        return False
    return True if Link.OUTPUT in links else None


def _world_size(header: Mapping[str, Any]) -> int:
    size = header.get("world_size", 0)
    return size if type(size) is int else 0


def _rank_side(log: LogReader) -> RankSide:
    from everybit.diff.side import Gap, RankSide

    every = (log.header.get("config") or {}).get("every", 0)
    missed_end, cut_short = _end_of(log)
    layout = log.name_lists()
    streams = {
        number: names for number, (link, names) in (layout or {}).items() if link is Link.RNG
    }
    return RankSide(
        rank=log.rank,
        starts=log.inits(),
        steps=log.steps(arrays=True, sums=False),
        reread=lambda: log.steps(arrays=True, sums=False),
        whole=log.step,
        sealed=lambda: _sealed(log, streams),
        layout=layout,
        attempt=log.attempt,
        step_range=log.step_range,
        every=every if type(every) is int and every > 0 else 0,
        gaps=tuple(
            Gap(after=place.step_before, before=place.step_after, what=place.what)
            for place in log.damage
        ),
        missed_end=missed_end,
        cut_short=cut_short,
        configurations=lambda: _configurations(log),
        samples=partial(_samples, log) if hasattr(log, "samples") else None,
        repeats=_repeats(log),
        shards=shards_of(log),
        wholes=partial(wholes_of, log),
    )


def _samples(log: LogReader) -> Iterator[SampleRecord]:
    from everybit.diff.look_ahead import as_used

    def num_losses(step: int) -> int:
        record = log.step(step)
        return 0 if record is None else len(record.losses)

    return as_used(log.samples(), num_losses)


def _sealed(log: LogReader, streams: Mapping[int, tuple[str, ...]]) -> Iterator[SealedStep]:
    from everybit.diff.side import SealedStep
    from everybit.ledger.step import TIMELESS, table_at

    opened = partial(log.decode, arrays=True, sums=False)
    for step, payload, begin, end in log.payloads(streams):
        body, words = payload[TIMELESS:], {}
        if end:
            body = payload[TIMELESS:begin] + payload[end:]
            words = table_at(payload, begin, streams)
        yield SealedStep(step, body, words, partial(opened, payload))


def _configurations(log: LogReader) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for observation in log.observations:
        if observation.kind == "configuration":
            yield observation.step, observation.data


def _repeats(log: LogReader) -> str:
    """Return what proves that this rank computes the same bits again, in words."""
    coverage = log.coverage
    if coverage is None or any("does not repeat" in skip.why for skip in coverage.skipped):
        return ""
    counts = {each.what: each.count for each in coverage.checked}
    again = counts.get("calls of a model computed again", 0)
    if not again or any(finding.rule.startswith("CMP") for finding in log.findings):
        return ""
    return f"{again} of its calls were computed again and gave the same bits"


def _end_of(log: LogReader) -> tuple[str, str]:
    """Return why steps may be missing at the end, and how a run on full record ended early."""
    from everybit.ledger import EndReason, Liveness

    end = log.end
    if end is None:
        if log.liveness is Liveness.RUNNING:
            return "it is still running", ""
        return "it has no end record (killed, or out of disk): what it did last is not known", ""
    if end.reason is EndReason.CLEAN or (end.reason is EndReason.EXIT and not end.code):
        return "", ""
    return "", f"ended early ({end.reason} {end.detail or end.code})"


def _not_read(run: RunReader, side: str) -> list[Skipped]:
    skipped = [
        Skipped(
            what=f"record of {side}",
            why=f"{place.path}, bytes {place.byte_range[0]} to {place.byte_range[1]}: "
            f"{place.what} (RUN152)",
        )
        for place in run.damage
    ]
    earlier = max((len(run.logs(rank)) - 1 for rank in run.ranks), default=0)
    if earlier:
        why = f"{earlier} earlier than the newest, which is compared"
        skipped.append(Skipped(what=f"attempts of {side}", why=why, promised=False))
    return skipped
