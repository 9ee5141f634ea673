"""`env`: what this machine and process run on; records of it compared, checked and locked."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.api.diff_issues import one_sided
from everybit.api.read_files import read_files_of
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.diff.determinism import judge_determinism
from everybit.diff.environment import OF_A_JOB, compare_environments, num_compared, uncompared
from everybit.diff.read_files import SECTION, comparable
from everybit.host import SCHEMA, capture_environment
from everybit.host.known_issues import issues_of, known_issues
from everybit.host.lock import installed, lock_text
from everybit.report.strict_json import strict

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable


def env(
    out: str | os.PathLike[str] | None = None,
    *,
    extra_variables: Iterable[str] = (),
    of_job: bool = True,
) -> dict[str, Any]:
    """Return the environment record of this process; loads torch where it is installed.

    Args:
        out: Also write it there, as JSON.
        extra_variables: Environment variables to record beside those that bear on numbers. Names
            that look like secrets are refused.
        of_job: Record the command line and seeds of this process too.

    Raises:
        PathError: `out` cannot be written.
    """
    if out is not None:
        check_writable(Path(out))
    record = capture_environment(extra_variables=extra_variables, load_torch=True, keep_diff=False)
    if not of_job:
        for section in OF_A_JOB:
            del record[section]
    if out is not None:
        text = json.dumps(strict(record), indent=2) + "\n"
        write_atomically(Path(out), text.encode())
    return record


def env_diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Verdict:
    """Compare two environment records: files of `everybit env --out`, or run folders.

    What can change numbers most comes first. Of two runs the files that their programs read before
    their first step are compared too. A known issue that gives wrong results (ENV903) is
    told where one side alone falls under it: `env_check` tells those of one record.

    Raises:
        PathError: One cannot be read, or is neither.
        DamagedError: A run's record of its environment is damaged.
    """
    began = time.perf_counter()
    first, second = load_environment(Path(a)), load_environment(Path(b))
    first, second, unread = _with_read_files((Path(a), first), (Path(b), second))
    findings = [found.finding() for found in compare_environments(first, second)]
    findings += [match.finding(side) for side, match in one_sided(first, second)]
    note = judge_determinism(first, second, parted=False)
    coverage = Coverage(
        checked=(
            Checked(what="environment entries", count=num_compared(first, second)),
            Checked(what="known issues", count=len(known_issues())),
        ),
        skipped=(*uncompared(first, second), *unread),
    )
    return Verdict(
        command="env",
        target=(str(a), str(b)),
        findings=(*findings, note) if note else tuple(findings),
        coverage=coverage,
        stats={"seconds": time.perf_counter() - began},
    )


def env_check(record: str | os.PathLike[str] | None = None) -> Verdict:
    """Hold an environment against the known issues that give wrong results (ENV903).

    Args:
        record: A file of `everybit env --out`, or a run folder; this process where None.

    Raises:
        PathError: It cannot be read, or is neither.
        DamagedError: The run's record of its environment is damaged.
    """
    began = time.perf_counter()
    data = env(of_job=False) if record is None else load_environment(Path(record))
    unread = [
        Skipped(what=f"known issues that depend on {section}", why=str(data[section]["unknown"]))
        for section in ("torch", "cuda", "blas", "gpu", "packages")
        if isinstance(data.get(section), dict) and "unknown" in data[section]
    ]
    return Verdict(
        command="env",
        target=("this machine" if record is None else str(record),),
        findings=tuple(match.finding() for match in issues_of(data)),
        coverage=Coverage(
            checked=(Checked(what="known issues", count=len(known_issues())),),
            skipped=tuple(unread),
        ),
        stats={"seconds": time.perf_counter() - began},
    )


def env_lock(out: str | os.PathLike[str] | None = None) -> str:
    """Return the installed packages as an exact constraints file for pip.

    One exact version a line, the digest of each package's RECORD as a comment, hashes of archives
    where pip noted them, and no address of any index. Packages installed as editable, from a
    folder or from a repository are comments: a version would name another release.

    Args:
        out: Also write it there, whole or not at all.

    Raises:
        PathError: `out` cannot be written.
    """
    if out is not None:
        check_writable(Path(out))
    text = lock_text(installed())
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text


def load_environment(path: Path) -> dict[str, Any]:
    """Return the environment record in a file, or that of a run folder's first rank.

    Raises:
        PathError: It cannot be read, or is neither.
        DamagedError: The run folder's record of it is damaged.
    """
    if path.is_dir():
        from everybit.ledger import open_run

        run = open_run(path)
        if not run.ranks:
            raise PathError("the run has no log", where=str(path), todo="name another run")
        record = run.log(run.ranks[0]).header.get("environment")
        if not isinstance(record, dict) or not record:
            if run.damage:
                raise DamagedError(
                    "the environment on record is damaged", rule="RUN152", where=str(path)
                )
            raise PathError("the run recorded no environment", where=str(path))
        return record
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    except (ValueError, RecursionError) as error:
        raise _not_a_record(path) from error
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise _not_a_record(path)
    return record


def _with_read_files(
    a: tuple[Path, dict[str, Any]], b: tuple[Path, dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], list[Skipped]]:
    """Return both environments with the files that the runs read, where both are of runs."""
    if not (a[0].is_dir() and b[0].is_dir()):
        return a[1], b[1], []
    from everybit.ledger import open_run

    told = []
    for path in (a[0], b[0]):
        run = open_run(path)
        told.append(read_files_of([run.log(rank) for rank in run.ranks]))
    found, skipped = comparable(*told)
    if found is None:
        return a[1], b[1], skipped
    return a[1] | {SECTION: found[0]}, b[1] | {SECTION: found[1]}, skipped


def _not_a_record(path: Path) -> PathError:
    return PathError(
        "is no environment record", where=str(path), todo="`everybit env --out FILE` writes one"
    )
