"""`verify`: do files still hold what was sealed, or what their own format promises."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from everybit.core.errors import PathError
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.files.checks.placed import Thoroughness
from everybit.files.checks.verifying import verify_file, verify_folder
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

Level = Literal["structure", "full"]


def verify(
    *paths: str | os.PathLike[str],
    level: Level = "full",
    strong: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Test whether files still hold the right bytes.

    A sealed file is held against its manifest: one read of all its bytes, and where they differ,
    the tensors, elements and bits. Any other file is tested as far as its format allows.

    Args:
        paths: Files and folders. A folder means all that its manifests list and every model in it.
        level: `full` reads every byte; `structure` tests sizes and structure only.
        strong: Compare BLAKE3 digests as well.
        progress: Is told the bytes read, as they are.

    Returns:
        The verdict. `inconclusive` where bytes had nothing to be held against.

    Raises:
        PathError: A path cannot be opened.
    """
    if not paths:
        raise PathError("nothing to verify", todo="name a file or a folder")
    if level not in ("structure", "full"):
        raise PathError(f"no level {level!r}", todo="choose structure or full")
    began = time.perf_counter()
    how = Thoroughness(full=level == "full", strong=strong, progress=progress)
    total = Outcome()
    for given in paths:
        path = Path(given)
        total.add(verify_folder(path, how) if path.is_dir() else verify_file(path, how))
    checked = tuple(Checked(what=what, count=number) for what, number in total.checked.items())
    return Verdict(
        command="verify",
        target=tuple(str(path) for path in paths),
        findings=tuple(total.findings),
        coverage=Coverage(checked=checked, skipped=tuple(total.skipped)),
        stats={"bytes": total.num_bytes, "seconds": time.perf_counter() - began},
    )
