"""Files that lists and signing bundles speak of and that nobody has looked at yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Skipped
from everybit.files.checks.placed import Thoroughness, check_digests_only, missing
from everybit.files.folder import list_files
from everybit.files.signatures.bundle import BUNDLE_NAME
from everybit.files.signatures.sums import LIST_NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.outcome import Outcome


def check_listed(folder: Path, how: Thoroughness, outcome: Outcome) -> None:
    """Check what the lists in a folder, and in folders below, speak of and what was not checked.

    Args:
        folder: The target; all its models were checked before.
        how: How thoroughly.
        outcome: What was found so far; takes what is found here.

    Raises:
        PathError: A folder cannot be read.
    """
    expected = how.expected
    if expected is None:
        return
    told = {finding.where.path for finding in outcome.findings}
    for place in _folders_with_lists(folder):
        for name, (path, listed_by) in expected.unasked(place).items():
            if name in told:
                continue
            told.add(name)
            if not os.path.lexists(path):
                outcome.findings.append(missing(name, listed_by=listed_by))
            elif how.full:
                try:
                    outcome.add(check_digests_only(path, name, how))
                except PathError as error:
                    why = f"it cannot be read: {error.what}"
                    outcome.skipped.append(Skipped(what=name, why=why))


def _folders_with_lists(folder: Path) -> list[Path]:
    found = {folder}
    for path in list_files(folder, dangling=True).values():
        if path.name == BUNDLE_NAME or path.name.lower() in LIST_NAMES:
            found.add(path.parent)
    return sorted(found)
