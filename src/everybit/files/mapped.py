"""BLAKE3 of a large file in the page cache, taken by a process that maps it and may die of that.

To read a file copies every byte of it; in a map BLAKE3 finds them where they are, with all cores at
work. But a file that shrinks, or a disk that fails, kills a process that has mapped it. So a child
does that and nothing else, through the descriptor that is open here, and whatever befalls it, the
answer is only that the file is to be read. Files that are not in memory are read as well: in a map
they would come page by page, out of order.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
        import blake3

        descriptor = source.fileno()
        folder = Path(blake3.__file__).parent.parent
        command = [sys.executable, "-I", "-S", str(_CHILD), str(descriptor), str(source.size)]
        self._size = source.size
        self._progress = progress
        self._child: subprocess.Popen[str] | None = None
        try:
            self._child = subprocess.Popen(
                [*command, str(folder)],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError:
            return  # No process can be had: the file is read instead.

    def digest(self) -> str | None:
        """Wait for the digest, in hexadecimal; None where the child could not take it."""
        if self._child is None or self._child.stdout is None:
            return None
        position, digest = 0, None
        for line in self._child.stdout:
            told = line.strip()
            if len(told) == 64:
                digest = told
            elif told.isdigit():
                self._progress(int(told) - position)
                position = int(told)
        whole = self._child.wait() == 0 and position == self._size
        if digest is None or not whole:
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
            self._child.kill()
            self._child.communicate()
