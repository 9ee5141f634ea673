"""`everybit.run`: an unmodified training script under a Guard."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from everybit.api.children import Children
from everybit.api.program import find_program, flush, print_own_traceback, say_exit, say_explanation
from everybit.api.signals import end_on_signals
from everybit.core.after_import import AfterImport
from everybit.core.config import Config
from everybit.core.errors import EverybitError, PathError, StoppedError
from everybit.core.ranks import rank_and_world
from everybit.core.verdict import Coverage, Skipped, Verdict
from everybit.host import capture_environment
from everybit.host.read_files import read_files
from everybit.ledger import End, EndReason, RunWriter, end_after, exit_code
from everybit.ledger.default_folder import default_folder
from everybit.sinks import check_sinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard import Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a watched script ended.

    Attributes:
        exit_code: The script's own exit code; 1 where the policy stopped it.
        verdict: The verdict of the run, also in `verdict.json` where that could be written.
        folder: The run folder.
        stopped: The line that says why the policy stopped it, else "".
        interrupted: It ended by an unhandled KeyboardInterrupt.
    """

    exit_code: int
    verdict: Verdict
    folder: Path
    stopped: str = ""
    interrupted: bool = False


def run(
    target: str,
    args: Sequence[str] = (),
    *,
    module: bool = False,
    config: Config | None = None,
) -> RunOutcome:
    """Run a script or module as `python target args` would, with a Guard around it.

    Its stdout, its exit code and the traceback of its own errors are left as they are. The Guard
    begins when the script imports torch; models and optimizers are found when the first optimizer
    is built.

    Args:
        target: Path of a script, or with `module` the name of a module.
        args: What the script finds in `sys.argv[1:]`.
        module: Run `target` as `python -m` does.
        config: Settings of the Guard.

    Raises:
        PathError: The script cannot be read, or the run folder cannot be written.
        UsageError: There is no such module, or a tracker's package is not installed.
    """
    program = find_program(target, module=module)
    config = config or Config()
    if config.run is None:
        config = config.updated({"run": default_folder(program.name)})
    check_sinks(config)
    watch = _ScriptWatch(config)
    watch.check_place()
    code, stopped, interrupted = 0, "", False
    with program.in_place(list(args)):
        try:
            with watch, end_on_signals(watch):
                program.execute()
        except SystemExit as end:
            say_exit(end)
            code = exit_code(end)
        except StoppedError as error:
            code, stopped = 1, error.line()
        except KeyboardInterrupt:
            print_own_traceback()
            code, interrupted = 128 + signal.SIGINT, True
        except BaseException as error:
            print_own_traceback()
            say_explanation(error)
            code = 1
    if not watch.is_ours:
        # A child that the script forked and let run on to here: it ends as the script would.
        flush()
        sys.exit(code)
    return RunOutcome(
        exit_code=code,
        verdict=watch.verdict(),
        folder=watch.path,
        stopped=stopped,
        interrupted=interrupted,
    )


class _ScriptWatch:
    """The Guard of a script, from its import of torch to its end; a context manager.

    Args:
        config: Settings; `run` is set.
    """

    def __init__(self, config: Config) -> None:
        assert config.run is not None
        # The script may change its folder; where the run is recorded stays.
        self.path = Path(config.run)
        self._absolute = self.path.absolute()
        self._config = config.updated({"run": str(self._absolute)})
        self._torch = AfterImport("torch", self._begin)
        self._children = Children(self._config)
        self._guard: Guard | None = None
        self._failure = ""
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process is the script, and no child that it forked."""
        return os.getpid() == self._pid

    def check_place(self) -> None:
        """Raise `PathError` where the run folder cannot be written: better now than later."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path) as file:
                file.write(b"everybit")
        except OSError as error:
            raise PathError.from_os_error(error, self.path) from error

    def __enter__(self) -> Self:
        self._torch.install()
        self._children.install()
        read_files.listen(whole=True)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._torch.remove()
        self._children.remove()
        read_files.rest(ended=True)
        if self._guard is not None:
            self._guard.__exit__(kind, error, trace)
        elif self.is_ours:
            self._end_without_torch(error)

    def close(self, reason: EndReason, code: int, detail: str) -> None:
        """Record the end, from a signal's handler."""
        if self._guard is not None:
            self._guard.close(reason, code, detail)
        elif self.is_ours:
            self._write_end(End(reason=reason, code=code, detail=detail))

    def verdict(self) -> Verdict:
        """Return the verdict of the run, written into its folder where that is possible."""
        from everybit.api.report import write_verdict

        try:
            return write_verdict(self.path if self.path.is_dir() else self._absolute)
        except (OSError, EverybitError):
            # The disk that stopped the record has no room for a verdict either.
            if self._guard is not None:
                return self._guard.verdict
            return Verdict(command="run", target=(str(self.path),), coverage=self._uncovered())

    def _begin(self) -> None:
        """Enter the Guard; the job goes on where that fails."""
        if not self.is_ours:
            return
        try:
            from everybit.guard import Guard

            guard = Guard(config=self._config)
            guard.__enter__()
            self._guard = guard
        except Exception as error:
            import logging

            self._failure = f"{type(error).__name__}: {error}"
            logging.getLogger("everybit").warning(
                "everybit: the run is not watched, the job goes on; %s", self._failure
            )

    def _end_without_torch(self, error: BaseException | None) -> None:
        self._write_end(end_after(error))

    def _write_end(self, end: End) -> None:
        try:
            rank, world_size = rank_and_world(os.environ)
            writer = RunWriter.open(
                self._absolute,
                rank=rank,
                world_size=world_size,
                command=[sys.executable, *sys.argv],
                environment=capture_environment(),
                config=self._config.recorded(),
            )
        except (EverybitError, OSError) as error:
            self._failure = self._failure or str(error)
            return
        writer.coverage(self._uncovered(), {"steps": 0})
        writer.end(end.reason, end.code, end.told)
        writer.close()

    def _uncovered(self) -> Coverage:
        if self._failure:
            why = f"a fault of everybit's own ended them ({self._failure})"
            return Coverage(skipped=(Skipped(what="checks", why=why),))
        why = "the script did not import torch"
        return Coverage(skipped=(Skipped(what="training steps", why=why),))
