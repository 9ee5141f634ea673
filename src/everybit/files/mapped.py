"""BLAKE3 of a large file in the page cache, taken by a process that maps it and may die of that.

To read a file copies every byte of it; in a map BLAKE3 finds them where they are, with all cores at
work. But a file that shrinks, or a disk that fails, kills a process that has mapped it. So a child
does that and nothing else, through the descriptor that is open here, and whatever befalls it, the
answer is only that the file is to be read. Files that are not in memory are read as well: in a map
they would come page by page, out of order.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from everybit.files import cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from everybit.files.source import ByteSource

#: Below it the child takes longer to start than reading takes.
MAPPED_BYTES: Final = 256 << 20
_NUM_SAMPLES: Final = 32
_CHILD: Final = Path(__file__).with_name("mapped_child.py")


def can_map(source: ByteSource) -> bool:
    """Return whether a file is large, in memory as far as samples tell, and a child can map it."""
    if source.size < MAPPED_BYTES or not sys.executable or getattr(sys, "frozen", False):
        return False
    return source.is_cached(_NUM_SAMPLES)


class MappedHash:
    """The BLAKE3 digest of an open file, being taken by a child; a context manager.

    Args:
        source: The file, which stays open until this is closed.
        progress: Is told the bytes done, by `digest`.
    """

    def __init__(self, source: ByteSource, progress: Callable[[int], None]) -> None:
        self._size = source.size
        self._progress = progress
        self._child: _Child | None = None
        try:
            self._child = _forked(source) if _is_single_threaded() else _spawned(source)
        except OSError:
            return  # No process can be had: the file is read instead.

    def digest(self) -> str | None:
        """Wait for the digest, in hexadecimal; None where the child could not take it."""
        if self._child is None:
            return None
        position, digest = 0, None
        for line in self._child.out:
            told = line.strip()
            if len(told) == 64:
                digest = told.decode("ascii", "replace")
            elif told.isdigit():
                self._progress(int(told) - position)
                position = int(told)
        if digest is None or position != self._size:
            self._progress(-position)
            return None
        return digest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._child is not None:
            self._child.end()


@dataclass(frozen=True)
class _Child:
    """A process that hashes, what it writes, and what ends it."""

    out: IO[bytes]
    end: Callable[[], object]


def _is_single_threaded() -> bool:
    """Return whether a fork would leave no thread behind, and no lock in its hands."""
    if cores.are_lost():
        return False
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    except OSError:
        return False


def _forked(source: ByteSource) -> _Child:
    """Start the child as a copy of this process: no interpreter needs to start for it."""
    from everybit.files import mapped_child  # not on all systems

    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        try:
            faulthandler.disable()  # What kills it is no fault of the program.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            mapped_child.main(source.fileno(), source.size, writing)
        finally:
            os._exit(0)
    os.close(writing)
    out = os.fdopen(reading, "rb")

    def end() -> None:
        out.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # Somebody waits for all children.
            os.waitpid(pid, 0)

    return _Child(out, end)


def _spawned(source: ByteSource) -> _Child:
    """Start the child as a program of its own."""
    import blake3

    descriptor = source.fileno()
    folder = Path(blake3.__file__).parent.parent
    program = [sys.executable, "-I", "-S", str(_CHILD)]
    child = subprocess.Popen(
        [*program, str(descriptor), str(source.size), str(folder)],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None

    def end() -> None:
        child.kill()
        child.communicate()

    return _Child(child.stdout, end)
