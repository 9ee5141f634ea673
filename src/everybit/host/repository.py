"""The code's commit and what is not committed, asked of git.

Git is run so that nothing of the repository's own configuration that executes programs is used
beyond what git itself needs (no pager, no external diff, no text conversion, no file monitor).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

#: At most this much of the text of uncommitted changes is kept.
DIFF_LIMIT_BYTES: Final = 256 * 1024
#: Untracked files above this size, or past this number, enter by name and size only.
UNTRACKED_LIMIT_BYTES: Final = 1024 * 1024
UNTRACKED_LIMIT: Final = 200
TIMEOUT_S: Final = 10.0

_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c", "core.quotePath=false")


def read_repository(folder: Path | None = None, *, keep_diff: bool = True) -> dict[str, Any]:
    """Return commit, branch, and digests of uncommitted and untracked work.

    Args:
        folder: A folder in the repository; the working directory where None.
        keep_diff: Also keep the text of the changes, at most `DIFF_LIMIT_BYTES` of it.

    Raises:
        OSError: Git cannot be run.
        subprocess.SubprocessError: It failed or took longer than `TIMEOUT_S`.
    """
    if shutil.which("git") is None:
        return {"unknown": "git is not installed"}
    here = folder or Path.cwd()
    top = _git(here, "rev-parse", "--show-toplevel", check=False)
    if top.returncode:
        told = top.stderr.decode("utf-8", "replace").strip()
        if "not a git repository" in told:
            return {"absent": "not in a git repository"}
        return {"unknown": told or "git failed"}
    root = Path(os.fsdecode(top.stdout.rstrip(b"\n")))
    head = _git(root, "rev-parse", "--verify", "-q", "HEAD", check=False)
    facts: dict[str, Any] = {
        "root": str(root),
        "commit": head.stdout.decode().strip() if head.returncode == 0 else "no commit yet",
        "branch": _git(root, "branch", "--show-current").stdout.decode("utf-8", "replace").strip(),
    }
    against = "HEAD" if head.returncode == 0 else "--cached"
    diff = _git(root, "diff", "--no-ext-diff", "--no-textconv", "--binary", against).stdout
    facts["dirty"] = bool(diff)
    facts["diff_digest"] = _short(diff) if diff else ""
    if diff and keep_diff:
        facts["diff"] = diff[:DIFF_LIMIT_BYTES].decode("utf-8", "replace")
        if len(diff) > DIFF_LIMIT_BYTES:
            facts["diff"] += f"\n[{len(diff) - DIFF_LIMIT_BYTES} more bytes were not kept]\n"
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z").stdout
    names = sorted(name for name in untracked.split(b"\0") if name)
    facts["num_untracked"] = len(names)
    facts["untracked_digest"] = _digest_untracked(root, names) if names else ""
    return facts


def _git(folder: Path, *args: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", *_SAFE, "-C", str(folder), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=check,
        timeout=TIMEOUT_S,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
    )


def _digest_untracked(root: Path, names: list[bytes]) -> str:
    digest = hashlib.sha256()
    for number, name in enumerate(names):
        digest.update(name + b"\0")
        path = root / os.fsdecode(name)
        try:
            size = path.lstat().st_size
            digest.update(b"%d\0" % size)
            if number < UNTRACKED_LIMIT and size <= UNTRACKED_LIMIT_BYTES and path.is_file():
                digest.update(path.read_bytes())
        except OSError:
            digest.update(b"?\0")
    return digest.hexdigest()[:16]


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
