"""A sealed file that holds what another one was sealed with: misplaced rather than changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.tree import fold_leaves
from everybit.files.damage import MalformedError
from everybit.files.folder import list_manifests
from everybit.files.passes import read_leaves
from everybit.files.seals.manifest import load_manifest
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.digest import Digest
    from everybit.core.finding import Finding
    from everybit.files.outcome import Outcome
    from everybit.files.seals.manifest import Manifest

_CHANGED: Final = frozenset({"FIL101", "FIL102", "FIL104"})


def tell_misplaced(folder: Path, outcome: Outcome, *, below: bool) -> None:
    """Put one finding in place of all that tell that a whole other sealed file is there.

    Args:
        folder: What the findings' paths are relative to.
        outcome: The findings; changed in place.
        below: Manifests in folders below count too.
    """
    changed = {
        finding.where.path
        for finding in outcome.findings
        if finding.rule in _CHANGED and finding.severity is Severity.ERROR and finding.where.path
    }
    if not changed:
        return
    try:
        prefixes = list_manifests(folder) if below else [""]
    except PathError:
        return
    for prefix in prefixes:
        manifest = _load(folder / prefix)
        for name in sorted(path for path in changed if path is not None):
            entry = name.removeprefix(prefix)
            if manifest is None or not name.startswith(prefix) or entry not in manifest.files:
                continue
            owner = _owner(folder / name, entry, manifest)
            if owner is not None:
                _replace(outcome, name, prefix + owner)


def _load(folder: Path) -> Manifest | None:
    try:
        return load_manifest(folder)
    except (MalformedError, PathError):
        return None


def _owner(path: Path, name: str, manifest: Manifest) -> str | None:
    """Return the other sealed file whose content a file has."""
    try:
        with ByteSource(path) as source:
            others = [
                (other, entry.tree)
                for other, entry in manifest.files.items()
                if other != name and entry.size_bytes == source.size
                if entry.tree != manifest.files[name].tree
            ]
            if not others or not source.size:
                return None
            found = _tree(source)
    except PathError:
        return None
    return next((other for other, tree in others if tree == found), None)


def _tree(source: ByteSource) -> Digest:
    read = read_leaves(source)
    return fold_leaves("bytes", (read.num_bytes,), read.num_bytes, read.leaves)


def _replace(outcome: Outcome, name: str, owner: str) -> None:
    own = [f for f in outcome.findings if f.where.path == name and f.rule in _CHANGED]
    at = outcome.findings.index(own[0])
    outcome.findings[at] = rule("FIL106").finding(
        f"{name} holds what {owner} was sealed with, bit for bit",
        where=Location(path=name),
        evidence={"content_of": owner, "sealed_as": name, "num_tensors_changed": _tensors(own)},
        remedy=f"Put the files back under their own names, or fetch {name} again. If it was "
        "copied over on purpose, seal the folder again.",
    )
    gone = {id(finding) for finding in own}
    outcome.findings = [finding for finding in outcome.findings if id(finding) not in gone]


def _tensors(own: list[Finding]) -> int:
    return len({finding.where.tensor for finding in own if finding.where.tensor is not None})
