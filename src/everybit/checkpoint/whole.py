"""Whether a file is whole before anything of it is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.finding import Severity
from everybit.files.checks.placed import Thoroughness
from everybit.files.checks.verifying import verify_file, verify_folder

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.core.verdict import Skipped
    from everybit.files.outcome import Outcome

#: What says nothing of the bytes that are loaded: other files, sizes of neighbours.
_BESIDE = frozenset({"FIL109", "FIL111"})
#: Of the optimizer and the counters: the weights may be right, and state is matched by name here.
_ADVICE = frozenset({"FIL115"})


def verify_place(path: Path) -> Outcome:
    """Verify a file or folder as `everybit verify` does.

    Raises:
        PathError: It cannot be read.
    """
    how = Thoroughness(full=True)
    return verify_folder(path, how) if path.is_dir() else verify_file(path, how)


def check_whole(path: Path) -> tuple[list[Finding], list[Skipped]]:
    """Return what is wrong with the file, and what could not be tested; notes are left out.

    That a file has no checksum is told, and is no promise of a load.

    Raises:
        PathError: It cannot be read.
    """
    outcome = verify_place(path)
    findings = [
        replace(finding, severity=Severity.WARNING) if finding.rule in _ADVICE else finding
        for finding in outcome.findings
        if finding.rule not in _BESIDE and finding.severity is not Severity.NOTE
    ]
    return findings, [replace(item, promised=False) for item in outcome.skipped]
