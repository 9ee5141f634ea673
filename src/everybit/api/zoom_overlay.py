"""What a program that is run again writes goes to a folder of its own; the first run's files stay.

Covers what Python opens for writing, `torch.save`, and moving or removing such files. A file that
was written so is read back from there. What a library writes by itself goes where it is told to.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.after_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITING = frozenset("wax+")
#: Lists the files that were read, a line each, in the overlay's folder.
READS = ".reads"


class Overlay:
    """Patches for the whole of a process that ends with the program.

    Args:
        folder: Where files go that would be written elsewhere.
        spared: Folders that may be written to: those of this process's own.
    """

    def __init__(self, folder: Path, spared: tuple[Path, ...]) -> None:
        self._folder = folder
        self._spared = tuple(str(path.resolve()) + os.sep for path in (folder, *spared))
        self._open = io.open
        self._seen: set[str] = set()

    def install(self) -> None:
        """Patch; nothing is ever put back."""
        builtins.open = io.open = self._opened
        for name in ("replace", "rename"):
            setattr(os, name, self._moving(getattr(os, name)))
        for name in ("remove", "unlink"):
            setattr(os, name, self._removing(getattr(os, name)))
        AfterImport("torch", self._patch_torch).install()

    def place(self, path: Any, *, writes: bool) -> Any:
        """Return where a path really is: in the overlay where it is written, or was."""
        try:
            full = os.path.abspath(os.fsdecode(os.fspath(path)))  # noqa: PTH100 - links stay
        except TypeError:
            return path  # A descriptor, or a file.
        if self._is_left(full):
            return path
        there = self._folder / full.lstrip(os.sep)
        if not writes:
            return str(there) if there.is_file() else path
        if not Path(full).parent.is_dir() and not there.parent.is_dir():
            return path  # As it would have failed.
        there.parent.mkdir(parents=True, exist_ok=True)
        return str(there)

    def _is_left(self, full: str) -> bool:
        """Whether a path is no file of the program's: a device, or this process's own."""
        if full.startswith("/dev/shm/"):  # Plain files in memory; the library's own pass us by.
            return full.startswith(self._spared)
        return full.startswith((*self._spared, "/dev/", "/proc/"))

    def place_read(self, path: Any) -> Any:
        """Return where a file is read; one of the first run's is noted, as it may change."""
        where = self.place(path, writes=False)
        if where is path:
            with contextlib.suppress(TypeError):
                self._note(os.path.abspath(os.fsdecode(os.fspath(path))))  # noqa: PTH100
        return where

    def _note(self, full: str) -> None:
        if full in self._seen or self._is_left(full):
            return
        if not os.path.isfile(full):  # noqa: PTH113 - asked at every opening
            return
        self._seen.add(full)
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._open(self._folder / READS, "a", encoding="utf-8", errors="replace") as file:
            file.write(f"{full}\n")

    def _opened(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = bool(_WRITING & set(mode))
        where = self.place(file, writes=True) if writes else self.place_read(file)
        if writes and where is not file and ("a" in mode or "+" in mode) and "w" not in mode:
            self._bring(file, where)
        return self._open(where, mode, *args, **kwargs)

    def _bring(self, path: Any, where: Any) -> None:
        """What is added to, or changed in place, begins as it is."""
        source, target = Path(os.fsdecode(os.fspath(path))), Path(where)
        if source.is_file() and not target.exists():
            # Not a read of the program's own: a log that grows changes no number.
            with self._open(source, "rb") as file:
                target.write_bytes(file.read())

    def _moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def move(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            there = self.place(src, writes=False)
            target = self.place(dst, writes=True)
            if target is not dst and there is src:
                return None  # The first run's own file stays where it is.
            return original(there, target, *args, **kwargs)

        return move

    def _removing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if self.place(path, writes=True) is path:
                return original(path, *args, **kwargs)
            there = self.place(path, writes=False)
            return original(there, *args, **kwargs) if there is not path else None

        return remove

    def _patch_torch(self) -> None:
        torch = sys.modules["torch"]
        save = torch.save

        def save_there(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, (str, os.PathLike)):
                f = self.place(f, writes=True)
            return save(obj, f, *args, **kwargs)

        load = torch.load

        def load_from(f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, (str, os.PathLike)):
                f = self.place_read(f)
            return load(f, *args, **kwargs)

        torch.save, torch.load = save_there, load_from  # type: ignore[attr-defined]
