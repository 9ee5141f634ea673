"""`env`: what this machine and process run on; `env_diff`: two such records side by side."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.diff.environment import compare_environments, num_compared, uncompared
from everybit.host import SCHEMA, capture_environment
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
        del record["argv"], record["seeds"]
    if out is not None:
        text = json.dumps(strict(record), indent=2) + "\n"
        write_atomically(Path(out), text.encode())
    return record


def env_diff(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Verdict:
    """Compare two environment records: files of `everybit env --out`, or run folders.

    Raises:
        PathError: One cannot be read, or is neither.
        DamagedError: A run's record of its environment is damaged.
    """
    began = time.perf_counter()
    first, second = load_environment(Path(a)), load_environment(Path(b))
    findings = tuple(found.finding() for found in compare_environments(first, second))
    coverage = Coverage(
        checked=(Checked(what="environment entries", count=num_compared(first, second)),),
        skipped=tuple(uncompared(first, second)),
    )
    return Verdict(
        command="env",
        target=(str(a), str(b)),
        findings=findings,
        coverage=coverage,
        stats={"seconds": time.perf_counter() - began},
    )


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


def _not_a_record(path: Path) -> PathError:
    return PathError(
        "is no environment record", where=str(path), todo="`everybit env --out FILE` writes one"
    )
