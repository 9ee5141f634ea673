"""Image files that end too early and that Pillow was told to let through."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Final

#: Bytes at the end of a file in which the mark of its end is looked for.
TAIL_BYTES: Final = 1 << 16
#: Files of one batch that are told.
MAX_TOLD: Final = 64
_ENDS: Final = {"JPEG": b"\xff\xd9", "PNG": b"IEND", "MPO": b"\xff\xd9"}


class Truncated:
    """Look at the end of image files as Pillow decodes them, where it lets cut ones through.

    Only read where `ImageFile.LOAD_TRUNCATED_IMAGES` is on; the file is read by `pread`, which
    leaves its position as it was. Pillow is as it was before once this object has gone.

    Attributes:
        found: Names of files that nobody took yet.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._end: Any = None

    def begin(self) -> None:
        """Surround `ImageFile.load`, once Pillow is there and lets cut files through."""
        module: Any = sys.modules.get("PIL.ImageFile")
        if self._end is not None or module is None or not module.LOAD_TRUNCATED_IMAGES:
            return
        kind, found = module.ImageFile, self.found
        original = kind.load

        def load(image: Any) -> Any:
            # What is decoded already has no tiles left.
            if module.LOAD_TRUNCATED_IMAGES and getattr(image, "tile", None):
                _look(image, found)
            return original(image)

        kind.load = load
        self._end = weakref.finalize(self, _undo, kind, original, load)

    def take(self) -> tuple[str, ...]:
        """Return the names of the files found since the last call."""
        taken = tuple(self.found)
        self.found.clear()
        return taken

    def close(self) -> None:
        """Leave Pillow as it was."""
        if self._end is not None:
            self._end()


def _undo(kind: Any, original: Any, mine: Any) -> None:
    if kind.load is mine:
        kind.load = original


def _look(image: Any, found: list[str]) -> None:
    end = _ENDS.get(getattr(image, "format", None) or "")
    try:
        if end is None or end in _tail(image.fp) or len(found) >= MAX_TOLD:
            return
        found.append(str(getattr(image, "filename", "") or "an image in memory"))
    except Exception:  # Not a file that can be looked at: nothing is said of it.
        return


def _tail(file: Any) -> bytes:
    try:
        descriptor = file.fileno()
    except Exception:
        held: Any = file.getbuffer()  # In memory.
        return bytes(held[-TAIL_BYTES:])
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES))
