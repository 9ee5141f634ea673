"""`everybit.run`: an unmodified training script under a Guard."""

from __future__ import annotations

import importlib.util
import os
import runpy
import signal
import sys
import traceback
import types
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.config import Config
from everybit.core.errors import PathError, StoppedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everybit.core.verdict import Verdict
    from everybit.guard import Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a watched script ended.

    Attributes:
        exit_code: The script's own exit code; 1 where the policy stopped it.
        verdict: The verdict of the run, also in `verdict.json`; None where it could not be written.
        folder: The run folder.
        stopped: The line that says why the policy stopped it, else "".
    """

    exit_code: int
    verdict: Verdict
    folder: Path
    stopped: str = ""


def run(
    target: str,
    args: Sequence[str] = (),
    *,
    module: bool = False,
    config: Config | None = None,
) -> RunOutcome:
    """Run a script or module as `python target args` would, with a Guard around it.

    Its stdout, its exit code and the traceback of its own errors are left as they are. Models and
    optimizers are found when the first optimizer is built.

    Args:
        target: Path of a script, or with `module` the name of a module.
        args: What the script finds in `sys.argv[1:]`.
        module: Run `target` as `python -m` does.
        config: Settings of the Guard.

    Raises:
        PathError: The script cannot be read, or the run folder cannot be written.
        UsageError: There is no such module.
    """
    execute = _module(target) if module else _script(Path(target))
    from everybit.guard import Guard, default_folder

    config = config or Config()
    if config.run is None:
        config = config.updated(
            {"run": default_folder(target.rpartition(".")[2] if module else target)}
        )
    guard = Guard(config=config)
    stopped = ""
    with _program(target, args, module=module):
        try:
            with guard, _signals(guard):
                execute()
            code = 0
        except SystemExit as end:
            code = _exit_code(end)
        except StoppedError as error:
            code, stopped = 1, error.line()
        except KeyboardInterrupt:
            _print_own_traceback()
            code = 128 + signal.SIGINT
        except Exception:
            if guard.coverage is None:
                raise
            _print_own_traceback()
            code = 1
    return RunOutcome(exit_code=code, verdict=_verdict(guard), folder=guard.path, stopped=stopped)


def _verdict(guard: Guard) -> Verdict:
    from everybit.api.report import write_verdict

    try:
        return write_verdict(guard.path)
    except (OSError, PathError):
        # The disk that stopped the record has no room for a verdict either.
        return guard.verdict


def _script(path: Path) -> Callable[[], None]:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    if path.suffix in {".sh", ".yaml", ".yml", ".toml", ".json", ".ipynb"}:
        raise UsageError("not a Python script", where=str(path), todo="name the script itself")

    file = str(path.absolute())  # As `python` names it, in tracebacks too.

    def execute() -> None:
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=file, __builtins__=__builtins__, __spec__=None)
        sys.modules["__main__"] = main
        # Compiled here, so that a syntax error is the script's own.
        exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)

    return execute


def _module(name: str) -> Callable[[], None]:
    sys.path.insert(0, str(Path.cwd()))
    try:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            spec = None
    finally:
        del sys.path[0]
    if spec is None:
        raise UsageError(
            f"no module named {name!r}", todo="check the name, or run a file without -m"
        )

    def execute() -> None:
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return execute


@contextmanager
def _program(target: str, args: Sequence[str], *, module: bool) -> Iterator[None]:
    """Show the script the `sys` it would see under `python`."""
    argv, path, main = sys.argv, list(sys.path), sys.modules["__main__"]
    first = str(Path.cwd()) if module else str(Path(target).resolve().parent)
    sys.argv = [target, *args]
    sys.path.insert(0, first)
    try:
        yield
    finally:
        _flush()
        sys.argv, sys.path[:] = argv, path
        sys.modules["__main__"] = main


@contextmanager
def _signals(guard: Guard) -> Iterator[None]:
    """Record the end when the job is told to terminate, then let the signal do its work."""
    from everybit.ledger import EndReason

    pid = os.getpid()

    def on_signal(number: int, _frame: Any) -> None:
        if os.getpid() == pid:
            guard.close(EndReason.SIGNAL, number, signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    hooked = []
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        try:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, on_signal)
                hooked.append(number)
        except ValueError:  # Not the main thread.
            break
    try:
        yield
    finally:
        for number in hooked:
            if signal.getsignal(number) is on_signal:
                signal.signal(number, signal.SIG_DFL)


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _print_own_traceback() -> None:
    """Print the traceback as `python` would have: without the frames that run the script."""
    kind, error, trace = sys.exc_info()
    here = str(Path(__file__).parent.parent)
    while trace is not None and (
        trace.tb_frame.f_code.co_filename.startswith(here)
        or trace.tb_frame.f_code.co_filename == "<frozen runpy>"
    ):
        trace = trace.tb_next
    _flush()
    if sys.excepthook is not sys.__excepthook__ and kind is not None and error is not None:
        sys.excepthook(kind, error, trace)
    else:
        traceback.print_exception(kind, error, trace)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
