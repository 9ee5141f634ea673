"""One checkpoint evaluated once, watched: its scores, and digests of all they came from."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import UsageError
from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from everybit.core.observation import TensorTable
    from everybit.ledger import LogReader, RunReader

    Evaluate = Callable[[str], object]

_CHUNK: Final = 1 << 20


def evaluate_watched(evaluate: Evaluate, checkpoint: Path, name: str) -> dict[str, Any]:
    """Evaluate a checkpoint under a Guard and return the cell of the table, JSON-ready.

    Args:
        evaluate: Is given the checkpoint's path; returns a score, or scores by name.
        checkpoint: The checkpoint.
        name: `A` or `B`, for errors.

    Returns:
        `scores`, and of what was recorded `weights`, `inputs`, `outputs` (digests, "" where nothing
        was), `answers` and `mode`.

    Raises:
        UsageError: It fails, or returns something else.
    """
    from everybit.core.config import Config
    from everybit.guard import Guard
    from everybit.ledger import open_run

    with tempfile.TemporaryDirectory(prefix="everybit-cross-") as scratch:
        run = Path(scratch) / "run"
        config = Config().updated({"on_finding": "record", "replay_every": 0})
        try:
            with Guard(run=run, config=config):
                returned = evaluate(str(checkpoint))
        except Exception as error:
            raise UsageError(
                f"the evaluation of {name} fails ({type(error).__name__}: {str(error)[:200]})",
                where=str(checkpoint),
                todo="call it by itself first",
            ) from error
        return {"scores": scores_of(returned), **recorded_cell(open_run(run))}


def scores_of(returned: object) -> dict[str, float]:
    """Return what an evaluation returned as scores by name.

    Raises:
        UsageError: It is no number, and no mapping of names to numbers.

    >>> scores_of(0.92), scores_of({"accuracy": 0.92, "loss": 0.3})
    ({'score': 0.92}, {'accuracy': 0.92, 'loss': 0.3})
    """
    found = dict(returned) if isinstance(returned, Mapping) else None
    try:
        if found is None:
            return {"score": float(returned)}  # type: ignore[arg-type]
        return {str(name): float(value) for name, value in found.items()}
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(
            f"the evaluation returned a {type(returned).__name__}",
            todo="return a number, or a mapping of names to numbers",
        ) from None


def recorded_cell(run: RunReader) -> dict[str, Any]:
    """Return what an evaluation on record came from and gave."""
    empty: dict[str, Any] = {"weights": "", "inputs": "", "outputs": "", "answers": "", "mode": ""}
    if not run.ranks:
        return empty
    log = run.log(run.ranks[0])
    weights = hashlib.sha256()
    _add(weights, (table for _, tables in log.inits() for table in tables))
    digests = {Link.BATCH: hashlib.sha256(), Link.OUTPUT: hashlib.sha256()}
    num_steps = 0
    for record in log.steps():
        num_steps += 1
        for link, digest in digests.items():
            _add(digest, (table for table in record.tables if table.link is link))
    answers, mode = _answers(log)
    if not num_steps:
        return empty
    return {
        "weights": weights.hexdigest()[:32],
        "inputs": digests[Link.BATCH].hexdigest()[:32],
        "outputs": digests[Link.OUTPUT].hexdigest()[:32],
        "answers": answers,
        "mode": mode,
    }


def load_evaluation(target: str) -> Evaluate:
    """Return the function of `FILE.py` or `FILE.py:NAME` (default name: `evaluate`).

    Raises:
        UsageError: There is no such file or function, or the file fails.
    """
    file, _, name = target.partition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError("no such file", where=file, todo="give --cross FILE.py or FILE.py:NAME")
    spec = importlib.util.spec_from_file_location("everybit_cross", path)
    if spec is None or spec.loader is None:
        raise UsageError("not a Python file", where=file, todo="give --cross FILE.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        # What it prints is no part of the verdict.
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            f"it fails when it is imported ({type(error).__name__}: {str(error)[:200]})",
            where=file,
            todo="try it with `python`",
        ) from error
    found = getattr(module, name or "evaluate", None)
    if not callable(found):
        raise UsageError(
            f"it has no function {name or 'evaluate'!r}",
            where=file,
            todo="write `def evaluate(checkpoint): return accuracy`, or name another: FILE.py:NAME",
        )

    def evaluate(checkpoint: str) -> object:
        with contextlib.redirect_stdout(sys.stderr):
            return found(checkpoint)

    return evaluate


def digest_of(path: Path) -> str:
    """Return a digest of a file, or of all files of a folder and their names."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    for each in files:
        if each is not path:
            digest.update(os.fsencode(each.relative_to(path)) + b"\0")
        with each.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def _add(digest: Any, tables: Iterable[TensorTable]) -> None:
    for table in tables:
        for name, word in table:
            digest.update(f"{name}\0{word:016x}\n".encode())


def _answers(log: LogReader) -> tuple[str, str]:
    digest, modes, num = hashlib.sha256(), [], 0
    for each in log.observations:
        if each.kind == "answers":
            num += 1
            digest.update(repr((each.step, each.data.get("of"))).encode())
            modes += [each.data["mode"]] if "mode" in each.data else []
    return (digest.hexdigest()[:32] if num else ""), ", then ".join(dict.fromkeys(modes))


def is_equal(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """Whether scores are the same; NaN is equal to NaN."""
    return a.keys() == b.keys() and all(
        a[name] == b[name] or (math.isnan(a[name]) and math.isnan(b[name])) for name in a
    )
