"""One more computation of a recorded run, to one step: a process beside, and what it saw."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.api.zoom_overlay import READS
from everybit.api.zoom_side import command_of, environment_of
from everybit.api.zoom_vault import TOLD
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.host.read_files import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from everybit.api.zoom_side import Program

#: A program that runs longer than this past its last sign of life is ended.
PATIENCE_S: Final = 3600.0
_LOOK_S: Final = 0.1


class TakeError(Exception):
    """A program that was run again did not come to the step; the text says why."""


@dataclass(slots=True, kw_only=True)
class Take:
    """What one computation saw.

    Attributes:
        name: Of its folder.
        folder: Where it lies.
        record: The step as a record of digests.
        settings: Modes of torch that it was computed under.
        operations: Whether operations were noted, or values of modules alone.
        measured: What was measured at one operation; empty where nothing was asked for.
    """

    name: str
    folder: Path
    record: StepRecord
    settings: Mapping[str, Any]
    operations: bool = True
    measured: Mapping[str, Any] = field(default_factory=dict)

    def events(self) -> Iterator[list[Any]]:
        """Yield the operations in order, as `Event.to_json` gives them."""
        with (self.folder / "events.jsonl").open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def changed_after(
        self, time_s: float, recorded: Callable[[Path], str | None] = lambda _: None
    ) -> list[Path]:
        """Return the files that it read and that are not what the first run read.

        One whose digest is on record is compared with that; of another it is seen from its time:
        it was written after the first run had computed the step, and before this computation.

        Args:
            time_s: When the first run did, in seconds since the epoch.
            recorded: Returns the digest that a file had then; None where it is not on record.
        """
        try:
            read = (self.folder / "files" / READS).read_text(encoding="utf-8").splitlines()
            began_s = (self.folder / "spec.json").stat().st_mtime
        except OSError:
            return []
        found = []
        for path in map(Path, read):
            with contextlib.suppress(OSError):
                before = recorded(path)
                if before is not None:
                    is_other = digest_of(path) != before
                else:
                    is_other = time_s < path.stat().st_mtime < began_s
                if is_other:
                    found.append(path)
        return found

    @property
    def vault_step(self) -> int | None:
        """Step of the checkpoint of the first run that it went on from; None from the start."""
        return vault_step(self.folder)

    @property
    def held(self) -> str:
        """The file of what the held operation gave; "" where there is none."""
        path = self.folder / "held.pt"
        return str(path) if path.is_file() else ""


def vault_step(folder: Path) -> int | None:
    """Return the step of the first run's checkpoint that a computation went on from; else None."""
    try:
        return int(json.loads((folder / TOLD).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError):
        return None


def take(
    program: Program,
    step: int,
    folder: Path,
    *,
    progress: Callable[[str, int], None],
    near: bool = True,
    **wanted: Any,
) -> Take:
    """Run a program again up to a step.

    Args:
        program: How.
        step: The step to look at; the program is ended behind it.
        folder: A new folder for what it sees, prints and writes.
        progress: Told the folder's name and the number of steps that are done.
        near: Let it go on from a checkpoint that the first run has put into a Vault.
        wanted: Further fields of `everybit.guard.magnify.Wanted`.

    Raises:
        TakeError: It did not come to the step.
    """
    folder.mkdir(mode=0o700, parents=True)
    spec = {
        "target": program.target,
        "args": list(program.args),
        "module": program.module,
        "outer": program.outer,
        "run_name": program.run_name,
        "settings": dict(program.settings),
        "began_s": program.began_s,
        "near": near,
        "out": str(folder.resolve()),
        "wanted": {"step": step, **wanted},
    }
    asked = folder / "spec.json"
    asked.write_text(json.dumps(spec), encoding="utf-8")
    _run(program, asked.resolve(), folder, progress)
    return _read(folder, step)


def _run(program: Program, asked: Path, folder: Path, progress: Callable[[str, int], None]) -> None:
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command_of(asked),
            cwd=program.folder,
            env=environment_of(program),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
        try:
            _wait(process, folder, progress)
        finally:
            # Ctrl-C too: nothing of it goes on.
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait(
    process: subprocess.Popen[bytes], folder: Path, progress: Callable[[str, int], None]
) -> None:
    seen, last = -1, time.monotonic()
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
        try:
            step = int((folder / "progress").read_text(encoding="ascii") or -1)
        except (OSError, ValueError):
            step = seen
        if step != seen:
            seen, last = step, time.monotonic()
            progress(folder.name, step + 1)
        if time.monotonic() - last > PATIENCE_S:
            raise TakeError(f"no step was finished within {PATIENCE_S:.0f} s")


def _read(folder: Path, step: int) -> Take:
    try:
        seen = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    except OSError:
        raise TakeError(_why_not(folder, step)) from None
    return Take(
        name=folder.name,
        folder=folder,
        record=StepRecord(
            step=step,
            time_s=0.0,
            duration_s=0.0,
            guard_s=0.0,
            losses=tuple(map(float, seen["losses"])),
            tables=tuple(
                TensorTable(link=Link(link), names=tuple(names), digests=tuple(words))
                for link, names, words in seen["tables"]
            ),
        ),
        settings=seen["settings"],
        operations=seen["operations"],
        measured=seen.get("measured", {}),
    )


def _why_not(folder: Path, step: int) -> str:
    try:
        ended = json.loads((folder / "ended.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        lines = (folder / "stderr").read_text(encoding="utf-8", errors="replace").splitlines()
        return f"its process ended badly ({lines[-1][:200] if lines else 'no word'})"
    if ended["error"]:
        return f"it ended before step {step} ({ended['error']})"
    if not ended["magnified"]:
        return "no Guard of the recorded run was made by it"
    return f"it ended before step {step}"
