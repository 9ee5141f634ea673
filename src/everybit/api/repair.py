"""`repair`: put the right bytes back, from the best evidence there is."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.repair.applying import UnprovenError, apply
from everybit.files.repair.planning import Plan
from everybit.files.repair.telling import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.files.repair.mending import Mending


def repair(
    *paths: str | os.PathLike[str],
    copy: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    write: bool = False,
    keep: bool = False,
    accept_weak: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Put damaged bytes of model files back, from the best evidence there is.

    The evidence, best first: the digest of each sealed leaf with its CRC-32 (flipped bits), another
    copy, and parity; without a seal an archive's own checksums with a second witness, the twin
    records of its members, and copies. Nothing is written unless `write`; then a repaired file is
    written beside the damaged one, proved, and put in its place at once.

    Args:
        paths: Files and folders.
        copy: Another copy of them, which may be damaged elsewhere; several are asked in turn, and
            of three that differ without any checksum two that agree decide.
        write: Carry it out.
        keep: Leave each damaged original beside the repaired file, as `NAME.damaged`.
        accept_weak: Also put back a flipped bit that a checksum points at and that no second
            witness supports. Larger damage can look like that.
        progress: Is told the bytes read, as they are.

    Returns:
        The verdict. A finding that was put back is a note, so `exit_code()` is 0 where all was.

    Raises:
        PathError: A path cannot be read, or a repaired file cannot be written (a full disk); the
            damaged file is as it was.
    """
    if not paths:
        raise PathError("nothing to repair", todo="name a file or a folder")
    began = time.perf_counter()
    copies = _copies(copy)
    findings: list[Finding] = []
    checked: Counter[str] = Counter()
    total = Outcome()
    num_written = num_put_back = 0
    for path in dict.fromkeys(Path(given) for given in paths):
        outcome = Outcome()
        with Plan(
            copies=copies, accept_weak=accept_weak, progress=progress, outcome=outcome
        ) as plan:
            if path.is_dir():
                plan.add_folder(path)
            else:
                plan.add_file(path)
            for mending in plan.mendings:
                written, told = _carry_out(mending, write=write, keep=keep)
                findings += told
                num_written += written
                num_put_back += sum(m.end - m.start for m in mending.mends) if written else 0
                checked.update(mending.checked)
                outcome.skipped += mending.skipped
                outcome.num_bytes += mending.num_bytes
        total.add(outcome)
    checked.update(total.checked)
    stats: dict[str, object] = {
        "bytes": total.num_bytes,
        "seconds": time.perf_counter() - began,
    }
    if write:
        stats |= {"files_repaired": num_written, "put_back_bytes": num_put_back}
    return Verdict(
        command="repair",
        target=tuple(str(path) for path in paths),
        findings=(*findings, *total.findings),
        coverage=Coverage(
            checked=tuple(Checked(what=what, count=count) for what, count in checked.items()),
            skipped=tuple(total.skipped),
        ),
        stats=stats,
    )


def _copies(
    copy: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
) -> tuple[Path, ...]:
    if copy is None:
        return ()
    given = [copy] if isinstance(copy, str | os.PathLike) else list(copy)
    places = tuple(Path(each) for each in given)
    for place in places:
        if not place.exists():
            raise PathError("does not exist", where=str(place), todo="check the path of the copy")
    return places


def _carry_out(mending: Mending, *, write: bool, keep: bool) -> tuple[bool, list[Finding]]:
    """Write one file where that was asked for and helps; return whether, and what to tell."""
    # What is only partly there again would look whole to a loader.
    helps = mending.whole or (bool(mending.mends) and mending.path.exists())
    if not write or not mending.findings or not helps:
        return False, tell(mending, written=False)
    partly = not mending.whole
    try:
        kept = apply(mending, keep=keep or partly or bool(mending.keep))
    except UnprovenError as error:
        mending.why_lost = f"{error}; the file is as it was"
        mending.lost = mending.lost or [(0, mending.size_bytes)]
        mending.mends = []
        return False, tell(mending, written=False)
    return True, tell(mending, written=True, kept=kept)
