"""All that the files of a folder say about each other: shards, configs, parts, siblings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Severity
from everybit.core.verdict import Skipped
from everybit.files.checkpoints.averages import check_averages, find_idle_averages
from everybit.files.checkpoints.config import check_adapter, check_config
from everybit.files.checkpoints.contents import Shelf
from everybit.files.checkpoints.counters import (
    check_counters,
    find_exchanged_steps,
    find_stale_schedulers,
)
from everybit.files.checkpoints.dcp import check_dcp
from everybit.files.checkpoints.documents import check_documents
from everybit.files.checkpoints.moments import check_moments
from everybit.files.checkpoints.movement import compare_series
from everybit.files.checkpoints.newest import SAYS_NOTHING, name_newest
from everybit.files.checkpoints.pointers import dangling, find_pointers
from everybit.files.checkpoints.shards import check_index, read_index
from everybit.files.checkpoints.sizes import find_lacking, find_size_anomalies
from everybit.files.checkpoints.snapshot import Snapshot, digest_all, part_of, take_snapshot
from everybit.files.checkpoints.stale import find_stale
from everybit.files.checkpoints.units import Checkpoint, find_checkpoints, group_siblings
from everybit.files.checks.shard_index import is_index
from everybit.files.damage import MalformedError
from everybit.files.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Contents

#: Siblings that are compared with each other, the newest ones.
MAX_SIBLINGS: Final = 8
#: Fewer are compared where they hold more tensors than this together, so that memory is bounded.
MAX_TENSORS: Final = 100_000


@dataclass(slots=True, kw_only=True)
class _Work:
    shelf: Shelf
    sealed: set[str]
    damaged: set[str]
    full: bool
    folder_name: str
    told: set[tuple[str | None, str | None]] = field(default_factory=set)
    outcome: Outcome = field(default_factory=Outcome)

    def take(self, findings: list[Finding]) -> None:
        """Keep findings about files that have none yet: one damage is one finding."""
        for finding in findings:
            place = finding.where.path
            if place in self.damaged or (place, finding.where.tensor) in self.told:
                continue
            self.outcome.findings.append(finding)
        self.damaged |= {f.where.path for f in findings if f.where.path is not None}


def check_together(
    files: Mapping[str, Path],
    known: Sequence[Finding],
    *,
    sealed: set[str],
    full: bool,
    folder_name: str = "",
) -> Outcome:
    """Check what the files of a target say about each other.

    Args:
        files: Every file by its path relative to the target.
        known: Findings about single files; what these explain is not told again.
        sealed: Files that a manifest lists.
        full: Tensors' bytes may be read; else names, shapes, sizes and counters only.
        folder_name: The target's own name, which tells the step of a checkpoint folder.
    """
    work = _Work(
        shelf=Shelf(files),
        sealed=sealed,
        damaged=_damaged(known),
        full=full,
        folder_name=folder_name,
        told=_told(known),
    )
    for name in files:
        if is_index(name):
            _check_shards(work, name)
    work.take(list(check_documents(files, work.damaged)))
    gone, num_named = check_dcp(work.shelf, work.damaged, sealed)
    work.take(gone)
    if num_named:
        work.outcome.count("files named by a .metadata", num_named)
    checkpoints = find_checkpoints(files)
    for checkpoint in checkpoints:
        _check_configs(work, checkpoint)
    series = group_siblings(checkpoints)
    inside = {found.name for group in series for found in group}
    for checkpoint in checkpoints:
        if checkpoint.name not in inside:
            _check_parts(work, take_snapshot(work.shelf, checkpoint, work.damaged), {})
            work.shelf.forget(checkpoint.files.values())
    for group in series:
        _check_siblings(work, group)
    _name_newest(work, checkpoints, series, known)
    return work.outcome


def check_alone(
    name: str, files: Mapping[str, Path], known: Sequence[Finding], *, full: bool
) -> Outcome:
    """Check one file's parts against each other; an index against the shards beside it.

    Args:
        name: The file.
        files: It, and for an index the files of its folder.
        known: Findings about it.
        full: Tensors' bytes may be read.
    """
    work = _Work(
        shelf=Shelf(files),
        sealed=set(),
        damaged=_damaged(known),
        full=full,
        folder_name="",
        told=_told(known),
    )
    if is_index(name):
        _check_shards(work, name)
        return work.outcome
    own = Checkpoint(name=name, folder="", series=name, step=None, files={name: name})
    _check_parts(work, take_snapshot(work.shelf, own, work.damaged), {})
    return work.outcome


def _told(findings: Sequence[Finding]) -> set[tuple[str | None, str | None]]:
    return {(f.where.path, f.where.tensor) for f in findings if f.where.tensor is not None}


def _damaged(findings: Sequence[Finding]) -> set[str]:
    return {
        finding.where.path
        for finding in findings
        if finding.where.path is not None
        and finding.rule not in SAYS_NOTHING
        and finding.severity is not Severity.NOTE
    }


def _check_shards(work: _Work, name: str) -> None:
    if name in work.damaged and name in work.sealed:
        return  # it differs from its seal: what it says of its shards is part of that damage
    try:
        index = read_index(work.shelf.files[name], name)
    except MalformedError as error:
        work.take([error.damage.finding(name)])
        return
    except PathError:
        index = None
    if index is None:
        why = "it cannot be read, or is larger than any index that this release reads"
        work.outcome.skipped.append(Skipped(what=f"{name}: shards", why=why))
        return
    found = check_index(work.shelf, index, damaged=work.damaged, sealed=work.sealed, full=work.full)
    findings, found.findings = found.findings, []
    work.outcome.add(found)
    work.take(findings)


def _check_configs(work: _Work, checkpoint: Checkpoint) -> None:
    """Hold config.json and adapter_config.json against the weights beside them."""
    by_folder: dict[str, dict[str, Contents]] = {}
    broken: set[str] = set()
    for part, name in checkpoint.files.items():
        above = part.rpartition("/")[0]
        kind = part_of(part).rpartition("/")[2]
        if kind not in ("weights", "adapter_model.safetensors", "adapter_model.bin"):
            continue
        contents = work.shelf.whole(name) if name not in work.damaged else None
        if contents is None or any(d.startswith(f"{above}/") for d in broken):
            broken.add(f"{above}/")
            continue
        by_folder.setdefault(above, {})[name] = contents
    for above, weights in by_folder.items():
        if f"{above}/" in broken:
            continue
        prefix = f"{above}/" if above else ""
        adapters = {n: c for n, c in weights.items() if "adapter_model." in n}
        model = {n: c for n, c in weights.items() if n not in adapters}
        missing = any(
            finding.rule == "FIL103" and (finding.where.path or "").rpartition("/")[0] == above
            for finding in work.outcome.findings
        )
        config = checkpoint.files.get(f"{prefix}config.json")
        if config is not None and model and not missing:
            work.take(check_config(work.shelf, config, model, full=work.full))
            work.outcome.count("configs against their weights")
        config = checkpoint.files.get(f"{prefix}adapter_config.json")
        if config is not None and adapters:
            work.take(check_adapter(work.shelf, config, adapters))
            work.outcome.count("configs against their weights")


def _check_parts(work: _Work, snapshot: Snapshot, siblings: Mapping[int, str]) -> bool:
    """Check one checkpoint's parts; return whether nothing was found."""
    found: list[Finding] = []
    if not snapshot.unread and not _lacks_files(work, snapshot.checkpoint):
        found += check_moments(snapshot.state)
        found += check_averages(snapshot.state)
    found += check_counters(snapshot, work.shelf, siblings, work.folder_name)
    work.take(found)
    if snapshot.state.optimizers:
        work.outcome.count("optimizer states against their model", len(snapshot.state.optimizers))
    return not found


def _lacks_files(work: _Work, checkpoint: Checkpoint) -> bool:
    """Return whether findings tell of files that a checkpoint folder should have."""
    if not checkpoint.is_folder:
        return False
    above = f"{checkpoint.name}/" if checkpoint.name else ""
    there = set(checkpoint.files.values())
    return any(path.startswith(above) and path not in there for path in work.damaged)


def _check_siblings(work: _Work, group: Sequence[Checkpoint]) -> None:
    work.take(find_lacking(group, work.damaged))
    work.take(find_size_anomalies(work.shelf, group, work.damaged))
    siblings = {found.step: found.name for found in group if found.step is not None}
    snapshots: list[Snapshot] = []
    num_tensors = num_older = 0
    for checkpoint in reversed(group):
        snapshot = take_snapshot(work.shelf, checkpoint, work.damaged)
        others = {step: name for step, name in siblings.items() if name != checkpoint.name}
        fits = _check_parts(work, snapshot, others)
        num_tensors += len(snapshot.tensors)
        room = len(snapshots) < 2 or num_tensors <= MAX_TENSORS
        if num_older or len(snapshots) == MAX_SIBLINGS or not room:
            num_older += 1
        elif fits and not snapshot.unread:
            snapshots.append(snapshot)
            continue
        work.shelf.forget(checkpoint.files.values())
    snapshots.reverse()
    if num_older:
        why = f"the newest {len(snapshots)} are compared; verify older ones by themselves"
        what = f"{group[0].series.strip('/')}: {num_older} older siblings"
        work.outcome.skipped.append(Skipped(what=what, why=why, promised=False))
    misplaced = find_exchanged_steps(snapshots)
    work.take(misplaced)
    work.take(find_stale_schedulers(snapshots))
    if misplaced or len(snapshots) < 2:
        return
    if not work.full:
        why = "their bytes were not asked for"
        what = f"{group[0].series.strip('/')}: comparison of siblings"
        work.outcome.skipped.append(Skipped(what=what, why=why, promised=False))
        return
    digests = [digest_all(work.shelf, snapshot) for snapshot in snapshots]
    series = compare_series(snapshots, digests)
    work.take(find_stale(series))
    work.take(find_idle_averages(series))
    work.outcome.count("siblings compared", len(snapshots))


def _name_newest(
    work: _Work,
    checkpoints: Sequence[Checkpoint],
    series: Sequence[Sequence[Checkpoint]],
    known: Sequence[Finding],
) -> None:
    folders = {
        "/".join(parts[:depth])
        for name in work.shelf.files
        for parts in [name.split("/")[:-1]]
        for depth in range(1, len(parts) + 1)
    }
    pointers = find_pointers(work.shelf.files, folders)
    told = name_newest(
        checkpoints, series, [*known, *work.outcome.findings], pointers, work.outcome.skipped
    )
    newest = told.get("newest_whole")
    work.take(
        [
            dangling(pointer, newest if isinstance(newest, str) else None)
            for pointer in pointers
            if not pointer.there
        ]
    )
    work.outcome.stats |= told
