"""What a file or folder given to `verify` means: which files, against which manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Skipped
from everybit.files.checkpoints.check import check_alone, check_together
from everybit.files.checks.placed import Thoroughness, check_file, not_listed
from everybit.files.checks.shard_index import is_index
from everybit.files.damage import MalformedError
from everybit.files.folder import holds_model, list_files, list_manifests
from everybit.files.outcome import Outcome
from everybit.files.parity.health import check_parity
from everybit.files.seals.manifest import MANIFEST_NAME, Covers, Manifest, SealedFile
from everybit.files.signatures.manifest_signature import load_checked

if TYPE_CHECKING:
    from pathlib import Path


def verify_folder(folder: Path, how: Thoroughness) -> Outcome:
    """Verify all that the manifests in a folder list, and every model in it.

    A folder of sealed folders is verified against each one's own manifest. A file that cannot be
    read is a check that did not run; the others are verified all the same.

    Raises:
        PathError: The folder cannot be read.
    """
    outcome = Outcome()
    files = list_files(folder, dangling=True)
    sealed: dict[str, SealedFile] = {}
    covered: list[str] = []
    for prefix in list_manifests(folder):
        manifest = _load(folder / prefix, prefix, how, outcome)
        if manifest is None:
            continue
        if manifest.covers is Covers.FOLDER:
            covered.append(prefix)
        check_parity(
            folder / prefix, prefix, manifest, outcome, full=how.full, progress=how.progress
        )
        for below, entry in manifest.files.items():
            name = prefix + below
            known = sealed.get(name)
            if known is None or known.tree != entry.tree:
                # Two manifests that disagree cannot both hold, so both are asked.
                sealed[name] = entry
                outcome.add(_attempt(folder / name, entry, name, how))
    for name, path in files.items():
        if name in sealed or not _is_model(path, name, outcome):
            continue
        if any(name.startswith(prefix) for prefix in covered):
            outcome.findings.append(not_listed(path, name))
        outcome.add(_attempt(path, None, name, how))
    outcome.add(
        check_together(
            files,
            outcome.findings,
            sealed=set(sealed),
            full=how.full,
            folder_name=folder.absolute().name,
        )
    )
    if not outcome.checked and not outcome.findings and not outcome.skipped:
        why = "it holds no manifest and no model file; seal it, or name another one"
        outcome.skipped.append(Skipped(what="the folder's files", why=why))
    return outcome


def verify_file(path: Path, how: Thoroughness) -> Outcome:
    """Verify one file against the nearest manifest that lists it, in its folder or above.

    Raises:
        PathError: It cannot be read.
    """
    if path.name == MANIFEST_NAME and path.exists():
        return verify_folder(path.parent, how)
    outcome = Outcome()
    entry = None
    beside = False
    for folder in (path.parent, *path.absolute().parent.parents):
        if folder == path.parent:
            manifest = _load(folder, "", how, outcome)
            beside = manifest is not None and manifest.covers is Covers.FOLDER
            if outcome.findings:
                break
        else:
            manifest = _load_above(folder, path, how, outcome)
        if manifest is not None:
            name = path.absolute().relative_to(folder.absolute()).as_posix()
            entry = manifest.files.get(name)
        if entry is not None:
            break
    if entry is None and beside and path.exists():
        outcome.findings.append(not_listed(path, path.name))
    outcome.add(check_file(path, entry, path.name, how))
    _check_around(path, how, outcome)
    return outcome


def _check_around(path: Path, how: Thoroughness, outcome: Outcome) -> None:
    """Check a single file's own parts against each other, or an index against its shards."""
    if is_index(path.name):
        try:
            files = list_files(path.parent, dangling=True)
        except PathError:
            files = {path.name: path}
        beside = {name: found for name, found in files.items() if "/" not in name}
        outcome.add(check_alone(path.name, beside, outcome.findings, full=how.full))
    else:
        outcome.add(check_alone(path.name, {path.name: path}, outcome.findings, full=how.full))


def _load(folder: Path, prefix: str, how: Thoroughness, outcome: Outcome) -> Manifest | None:
    name = prefix + MANIFEST_NAME
    try:
        manifest = load_checked(folder, prefix, how.key, outcome)
        if manifest is None and (folder / MANIFEST_NAME).is_symlink():
            why = "the manifest is a link that leads nowhere or in a circle"
            outcome.skipped.append(Skipped(what=f"{name}: comparison with the seals", why=why))
        return manifest
    except MalformedError as error:
        outcome.findings.append(error.damage.finding(name))
        why = "the manifest does not hold"
        outcome.skipped.append(Skipped(what=f"{name}: comparison with the seals", why=why))
        return None


def _load_above(folder: Path, path: Path, how: Thoroughness, outcome: Outcome) -> Manifest | None:
    told = Outcome()
    try:
        manifest = load_checked(folder, f"{folder.as_posix()}/", how.key, told)
        name = path.absolute().relative_to(folder.absolute()).as_posix()
        if manifest is not None and name in manifest.files:
            outcome.add(told)
        return manifest
    except (MalformedError, PathError):
        # Nobody asked about that folder, and whether it seals this file cannot be known.
        why = f"the manifest in {folder} does not hold or cannot be read"
        outcome.skipped.append(Skipped(what=f"{path.name}: comparison with a seal", why=why))
        return None


def _attempt(path: Path, entry: SealedFile | None, name: str, how: Thoroughness) -> Outcome:
    try:
        return check_file(path, entry, name, how)
    except PathError as error:
        return Outcome(skipped=[Skipped(what=name, why=f"it cannot be read: {error.what}")])


def _is_model(path: Path, name: str, outcome: Outcome) -> bool:
    try:
        return holds_model(path)
    except PathError as error:
        why = f"it cannot be read: {error.what}"
        outcome.skipped.append(Skipped(what=name, why=why))
        return False
