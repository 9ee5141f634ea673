"""`everybit.cross`: both checkpoints evaluated on both sides, and what is to blame.

Two servers rarely reach one another: each evaluates both checkpoints, one of them writes what came
out to a file, and the other reads it.
"""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.api.cross_blame import blame
from everybit.api.cross_cell import (
    digest_of,
    evaluate_watched,
    load_evaluation,
    recorded_cell,
)
from everybit.api.diff import is_run
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import PathError, UsageError
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.host import capture_environment

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

SCHEMA: Final = "everybit.cross/1"
_MEANS: Final = {
    "weights": Link.LOAD,
    "data": Link.BATCH,
    "evaluation": Link.CODE,
    "environment": Link.ENVIRONMENT,
    "file": Link.FILE,
}
_REMEDIES: Final = {
    "weights": "`everybit diff A B` names the tensors in which the two checkpoints differ.",
    "file": "Fetch the checkpoint again, and `everybit verify` it against a seal.",
    "data": "Compare the data files and the preprocessing of the two sides.",
    "evaluation": "Run the same evaluation code, in the same mode, on both sides.",
    "environment": "`everybit env diff` names what differs; `everybit env check` names "
    "releases that compute wrongly.",
}


def cross(
    evaluate: Callable[[str], object] | str,
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    export: str | os.PathLike[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Evaluate two checkpoints here, and compare with what another side made of the same two.

    Args:
        evaluate: Is given a checkpoint's path; returns a score, or scores by name. Or the path of
            a Python file that has such a function: `eval.py`, `eval.py:function`.
        a: A checkpoint: a file or a folder.
        b: Another; the same one twice compares the sides alone.
        export: Write what came out here to this file, for the other side.
        against: What came out on the other side: such a file, or the folder of a recorded run
            that evaluated one of the two.
        progress: Told which checkpoint is evaluated.

    Returns:
        The verdict. `comparison["cross"]` holds the table, `blame` (`weights`, `file`, `data`,
        `evaluation`, `environment`), and why; a finding where scores differ.

    Raises:
        PathError: A path cannot be read or written.
        UsageError: There is no such function, it fails, or it returns no scores.
    """
    began = time.perf_counter()
    paths = {"A": Path(a), "B": Path(b)}
    for path in paths.values():
        if not path.exists():
            raise PathError("no such file or folder", where=str(path), todo="give a checkpoint")
        if is_run(path):
            raise UsageError(
                "is a run, and --cross evaluates checkpoints",
                where=str(path),
                todo="give the checkpoints that the runs wrote, or `everybit diff` without --cross",
            )
    if export is not None:
        check_writable(Path(export))
    there = _read_side(Path(against)) if against is not None else None
    code = ""
    if isinstance(evaluate, str):
        file = evaluate.partition(":")[0]
        evaluate = load_evaluation(evaluate)
        code = digest_of(Path(file))
    cells = {}
    for name, path in paths.items():
        progress(f"{name} ({path})")
        cells[name] = evaluate_watched(evaluate, path, name)
    here = {
        "schema": SCHEMA,
        "side": platform.node() or "a side",
        "files": {name: digest_of(path) for name, path in paths.items()},
        "code": code,
        "environment": capture_environment(keep_diff=False),
        "cells": cells,
    }
    if export is not None:
        data = json.dumps(here, default=str).encode()
        write_atomically(Path(export), data, mode=0o600)
    judged = blame(here, there)
    return _verdict(paths, judged, there, time.perf_counter() - began)


def _verdict(
    paths: Mapping[str, Path],
    judged: Mapping[str, Any],
    there: Mapping[str, Any] | None,
    seconds: float,
) -> Verdict:
    skipped = [Skipped(what=f"cell {name}", why=why) for name, why in judged["missing"]]
    if there is None:
        why = "what came out on the other side was not given (--against)"
        skipped.append(Skipped(what="the other side", why=why, promised=False))
    findings = []
    if judged["blame"]:
        first = judged["blame"][0]
        findings.append(
            rule("DIF181").finding(
                judged["why"],
                where=Location(path=str(paths["B"]), link=_MEANS[first]),
                evidence={"blame": judged["blame"], "table": judged["table"], **judged["facts"]},
                remedy=_REMEDIES[first],
            )
        )
    count = sum(cell is not None for row in judged["cells"] for cell in row)
    return Verdict(
        command="diff",
        target=tuple(str(path) for path in paths.values()),
        findings=tuple(findings),
        coverage=Coverage(
            checked=(Checked(what="evaluations of a checkpoint", count=count),),
            skipped=tuple(skipped),
        ),
        stats={"seconds": round(seconds, 3)},
        comparison={"cross": judged, "headline": judged["why"]},
    )


def _read_side(path: Path) -> dict[str, Any]:
    """Return what came out on the other side.

    Raises:
        PathError: It cannot be read.
        UsageError: It is something else.
    """
    if path.is_dir():
        return _recorded_side(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not _is_side(data):
        raise UsageError(
            "not what `--export` writes",
            where=str(path),
            todo="run `everybit diff A B --cross eval.py --export FILE` on the other side",
        )
    return data


def _is_side(data: Mapping[str, Any]) -> bool:
    cells = data.get("cells")
    return isinstance(cells, dict) and all(
        isinstance(cells.get(name), dict) and isinstance(cells[name].get("scores"), dict)
        for name in "AB"
    )


def _recorded_side(folder: Path) -> dict[str, Any]:
    from everybit.ledger import open_run

    run = open_run(folder)
    cell = recorded_cell(run)
    if not cell["outputs"]:
        raise UsageError("it evaluated nothing", where=str(folder), todo="name an evaluation's run")
    log = run.log(run.ranks[0])
    return {
        "schema": SCHEMA,
        "side": str(folder),
        "files": {},
        "code": "",
        "environment": log.header.get("environment") or {},
        "recorded": cell,
        "cells": {},
    }
