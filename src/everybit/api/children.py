"""Child processes of a watched script: those that become ranks of a job are watched too.

`torch.multiprocessing.spawn` and `multiprocessing.Process` start them, by spawn or by fork. What
a child runs is wrapped in an object that pickles; in the child it watches for the moment at which
an optimizer is built while `torch.distributed` is initialised.
"""

from __future__ import annotations

import contextlib
import multiprocessing.process
import os
from typing import TYPE_CHECKING, Any

from everybit.api.signals import end_on_signals
from everybit.core.after_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.config import Config
    from everybit.guard.rank_watch import RankWatch
    from everybit.ledger import EndReason

#: Children that serve a library and are never ranks: by the module of what they run.
_NO_RANKS = (
    "torch.utils.data.",
    "torch._inductor.",
    "multiprocessing.",
    "concurrent.",
    "everybit.",
)
_SPAWN = ("torch.multiprocessing.spawn", "_wrap")


class Children:
    """Wraps what child processes run, while installed.

    Args:
        config: Settings of the Guard; `run` is an absolute path.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._pid = os.getpid()
        self._start: Any = None
        self._ours: Any = None

    def install(self) -> None:
        """Begin to wrap."""
        kind: Any = multiprocessing.process.BaseProcess
        original = self._start = kind.start

        def start(process: Any) -> None:
            restore = self._wrap(process)
            try:
                original(process)
            finally:
                restore()

        kind.start = self._ours = start

    def remove(self) -> None:
        """Leave `multiprocessing` as it was."""
        kind: Any = multiprocessing.process.BaseProcess
        if self._start is not None and kind.start is self._ours:
            kind.start = self._start
        self._start = None

    def _wrap(self, process: Any) -> Callable[[], None]:
        target, args = getattr(process, "_target", None), getattr(process, "_args", ())
        module = f"{getattr(target, '__module__', '')}."
        spawned = (module[:-1], getattr(target, "__name__", "")) == _SPAWN
        if target is None or os.getpid() != self._pid or self._start is None:
            return _nothing
        if spawned and args and callable(args[0]):
            # It catches the errors of what it calls: that is what has to be watched.
            process._args = (WatchedTarget(args[0], self._config, self._pid), *args[1:])
        elif not module.startswith(_NO_RANKS):
            process._target = WatchedTarget(target, self._config, self._pid)
        else:
            return _nothing

        def restore() -> None:
            # A started process has let go of what it runs.
            for name, value in (("_target", target), ("_args", args)):
                if hasattr(process, name):
                    setattr(process, name, value)

        return restore


class WatchedTarget:
    """What a child process runs, under watch.

    Args:
        target: The function.
        config: Settings of the Guard.
        parent: Process number of the script.
    """

    def __init__(self, target: Callable[..., Any], config: Config, parent: int) -> None:
        self._target = target
        self._config = config
        self._parent = parent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        watch = _ChildWatch(self._config, self._parent)
        with watch, end_on_signals(watch):
            return self._target(*args, **kwargs)


class _ChildWatch:
    """The Guard of a child process, from when it is a rank to its end; a context manager."""

    def __init__(self, config: Config, parent: int) -> None:
        self._config = config
        self._parent = parent
        self._torch = AfterImport("torch", self._arrived)
        self._rank: RankWatch | None = None
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process is the rank, and no child of it."""
        return os.getpid() == self._pid

    def close(self, reason: EndReason, code: int, detail: str) -> None:
        """Record the end, from a signal's handler."""
        if self._rank is not None and self._rank.guard is not None:
            self._rank.guard.close(reason, code, detail)

    def __enter__(self) -> None:
        self._torch.install()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._torch.remove()
        if self._rank is None or not self.is_ours:
            return
        if self._rank.guard is not None:
            try:
                self._rank.guard.__exit__(kind, error, trace)
            finally:
                self._rank.remove()
        else:
            self._rank.remove()

    def _arrived(self) -> None:
        with contextlib.suppress(ImportError):
            from everybit.guard.rank_watch import RankWatch

            self._rank = RankWatch(self._config, self._parent)
            self._rank.install()


def _nothing() -> None:
    pass
