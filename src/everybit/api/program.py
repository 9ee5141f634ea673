"""A script or module, run as `python` would run it."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
import threading
import traceback
import types
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.errors import PathError, UsageError
from everybit.core.explain import explain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOT_PYTHON = {".sh", ".yaml", ".yml", ".toml", ".json", ".ipynb"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """What to run, found before it runs.

    Attributes:
        name: Name for the run folder.
        argv0: What it finds in `sys.argv[0]`.
        folder: What it finds in `sys.path[0]`.
        main: Its `__main__`, still empty.
        code: Returns its code; raises what is wrong with it, as an error of its own.
    """

    name: str
    argv0: str
    folder: str
    main: types.ModuleType
    code: Callable[[], types.CodeType]

    def execute(self) -> None:
        """Run it in this process, up to the end of its threads."""
        before = set(threading.enumerate())
        exec(self.code(), self.main.__dict__)
        for thread in threading.enumerate():
            if not thread.daemon and thread not in before:
                _wait_for(thread)

    @contextmanager
    def in_place(self, args: list[str]) -> Iterator[None]:
        """Show it the `sys` that it would see under `python`."""
        argv, path = sys.argv, list(sys.path)
        main = sys.modules["__main__"]
        sys.argv = [self.argv0, *args]
        if not sys.flags.safe_path:
            sys.path[0] = self.folder
        sys.modules["__main__"] = self.main
        try:
            yield
        finally:
            flush()
            sys.argv, sys.path[:] = argv, path
            sys.modules["__main__"] = main


def find_program(target: str, *, module: bool) -> Program:
    """Find a script, or with `module` a module.

    Raises:
        PathError: The script cannot be read.
        UsageError: It is no Python script, or there is no such module.
    """
    return _find_module(target) if module else _find_script(target)


def _find_script(target: str) -> Program:
    path = Path(target)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    if path.suffix in _NOT_PYTHON:
        raise UsageError("not a Python script", where=target, todo="name the script itself")
    file = str(path.absolute())  # As `python` names it, in tracebacks too.

    def code() -> types.CodeType:
        compiled: types.CodeType = compile(source, file, "exec", dont_inherit=True)
        return compiled

    main = _new_main(SourceFileLoader("__main__", file), file, None, None)
    return Program(
        name=target, argv0=target, folder=str(path.resolve().parent), main=main, code=code
    )


def _find_module(target: str) -> Program:
    here = str(Path.cwd())
    before = sys.path[0]
    sys.path[0] = here
    try:
        spec = importlib.util.find_spec(target)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{target}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{target}.__main__".startswith(f"{error.name}."):
            raise _import_fails(error, target) from error
        spec = None
    except ValueError:
        spec = None
    except Exception as error:
        raise _import_fails(error, target) from error
    finally:
        sys.path[0] = before
    loader: Any = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_code"):
        raise UsageError(
            f"no module named {target!r}", todo="check the name, or run a file without -m"
        )

    def code() -> types.CodeType:
        found: types.CodeType | None = loader.get_code(spec.name)
        if found is None:
            raise ImportError(f"no code of {spec.name}")
        return found

    main = _new_main(loader, spec.origin, spec, spec.cached)
    return Program(
        name=target.rpartition(".")[2],
        argv0=spec.origin or target,
        folder=here,
        main=main,
        code=code,
    )


def _wait_for(thread: threading.Thread) -> None:
    """Wait for the end of a thread, or for the work of one that waits for more, as in a pool.

    Pools that were not shut down end with the interpreter only, before other threads are joined.
    """
    rested = 0
    # Twice: between two pieces of work it looks for a moment as if it rested.
    while thread.is_alive() and rested < 2:
        thread.join(0.02)
        rested = rested + 1 if _rests(thread) else 0


def _rests(thread: threading.Thread) -> bool:
    """Whether a thread is one of a `ThreadPoolExecutor` that has nothing to do."""
    pools = sys.modules.get("concurrent.futures.thread")
    queue = getattr(pools, "_threads_queues", {}).get(thread)
    frame = sys._current_frames().get(thread.ident or 0)
    worker = getattr(pools, "_worker", None)
    if queue is None or frame is None or worker is None:
        return False
    idle: bool = queue.empty() and frame.f_code is worker.__code__
    return idle


def _import_fails(error: Exception, target: str) -> UsageError:
    return UsageError(
        f"its package fails when it is imported ({type(error).__name__}: {error})",
        where=target,
        todo=f"try `python -m {target}`",
    )


def _new_main(loader: Any, file: str | None, spec: Any, cached: str | None) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=file,
        __builtins__=builtins,
        __loader__=loader,
        __spec__=spec,
        __package__=spec.parent if spec is not None else None,
        __cached__=cached,
        __annotations__={},
    )
    return main


def say_exit(end: SystemExit) -> None:
    """Print what `python` would print at this exit."""
    if end.code is not None and not isinstance(end.code, int):
        flush()
        print(end.code, file=sys.stderr)


def print_own_traceback() -> None:
    """Print the traceback as `python` would have: without the frames that run the program."""
    kind, error, trace = sys.exc_info()
    here = str(Path(__file__).parent.parent) + os.sep
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(here):
        trace = trace.tb_next
    flush()
    if kind is None or error is None:
        return
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(kind, error, trace)
    else:
        traceback.print_exception(kind, error, trace)


def say_explanation(error: BaseException) -> None:
    """Say on stderr what an error of a loader really means, where it is one."""
    with suppress(Exception):
        explanation = explain_error(error)
        if explanation is not None:
            sys.stderr.write(f"\neverybit: {explanation.paragraph()}")
            sys.stderr.flush()


def flush() -> None:
    """Write out what the program printed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
