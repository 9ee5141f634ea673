"""Small files that the program opened for reading, by digest: configurations, vocabularies, tables.

Python tells an audit hook of every file that is opened. The hook cannot be removed again: where
nobody listens it returns at once. Digests are kept and no content. Files of libraries, of the
system, and those that the program wrote itself are left out, and so are names that look secret.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import sysconfig
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.host.argv import looks_secret

if TYPE_CHECKING:
    from types import FrameType

#: Files of which digests are kept, of them those that are no text by their names, and bytes of one:
#: what is larger, or more, is data.
MAX_FILES: Final = 64
MAX_OTHERS: Final = 16
MAX_BYTES: Final = 1024 * 1024
#: Openings past these after which no more are looked at.
_MAX_MORE: Final = 1000
#: Folders up from the program's own that still count as beside it.
_MAX_UP: Final = 2
_WRITES: Final = frozenset("wax+")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: Code is on record by itself (`host.code`); the others are written by running programs.
_OTHER_SUFFIXES: Final = frozenset(
    {".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".log", ".lock", ".pid", ".sock", ".pem", ".key"}
)
_TEXTS: Final = frozenset(
    {
        ".cfg", ".conf", ".csv", ".ini", ".json", ".jsonl", ".model", ".properties", ".toml",
        ".tsv", ".txt", ".xml", ".yaml", ".yml",
    }
)  # fmt: skip
#: What stands between a caller and the opening of a file.
_BETWEEN: Final = frozenset({"codecs", "gzip", "io", "pathlib"})
_SYSTEM: Final = ("proc", "sys", "dev", "etc", "usr", "lib", "lib64", "bin", "sbin", "run", "var")
_RUN_FILES: Final = ("run.json", "verdict.json")


class ReadFiles:
    """Notes the small files that this process opens for reading, while it listens.

    Attributes:
        digests: First 16 hexadecimal digits of the SHA-256 of each, by its path relative to the
            script's folder or to the working directory; `*/folder/name` of one further away.
        num_more: Such files that were opened when there was room for no more.
        whole: It has listened from the start of the program on.
        listening: Whether openings are noted now.
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.num_more = 0
        self.whole = False
        self.listening = False
        self._pid = os.getpid()
        self._roots: tuple[str, ...] = ()
        self._known: dict[str, str | None] = {}
        self._written: set[str] = set()
        self._busy: set[int] = set()
        self._num_others = 0
        self._hooked = False

    def listen(self, *, script: str | None = None, whole: bool = False) -> None:
        """Note what is opened from now on; a second time for the same process goes on.

        Args:
            script: The program; `sys.argv[0]` where None.
            whole: The program has not begun yet: what was noted before is forgotten.
        """
        # Children that are forked for other things (workers of loaders) do not ask.
        self._pid = os.getpid()
        if whole:
            self.digests, self.num_more, self._num_others = {}, 0, 0
            self._roots, self._known, self._written = (), {}, set()
            self.whole = True
        found = roots_of(script or (sys.argv[0] if sys.argv else ""), _working_folder())
        if new := tuple(root for root in found if root not in self._roots):
            self._roots, self._known = (*self._roots, *new), {}
        self.listening = True
        if not self._hooked:
            self._hooked = True
            with suppress(Exception):  # Another hook may forbid it.
                sys.addaudithook(self._heard)

    def rest(self, *, ended: bool = False) -> None:
        """Note nothing until `listen` is called again.

        Args:
            ended: The program has: what comes next in this process is another one.
        """
        self.listening = False
        if ended:
            self.whole = False

    def to_json(self) -> dict[str, Any]:
        """Return what was noted, JSON-ready."""
        told: dict[str, Any] = {"files": dict(sorted(self.digests.items())), "whole": self.whole}
        return told | ({"more": self.num_more} if self.num_more else {})

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        # Whatever is raised here would end the program's own call.
        if event != "open" or not self.listening:
            return
        me = threading.get_ident()
        if me in self._busy:
            return
        self._busy.add(me)
        try:
            if not _is_own():
                self._opened(*args)
        except Exception:
            return
        finally:
            self._busy.discard(me)

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int) or self._pid != os.getpid():
            return
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links stay; asked often
        if (_WRITES & set(mode)) if mode else flags & _WRITE_FLAGS:
            self._written.add(full)
            return
        if full in self._written:
            return
        if full not in self._known:
            self._known[full] = name_of(full, self._roots)
        name = self._known[full]
        if name is None:
            return
        held = os.stat(full)  # noqa: PTH116 - asked often
        if not stat.S_ISREG(held.st_mode) or held.st_size > MAX_BYTES:
            return
        if name not in self.digests and not self._has_room(full):
            self._known[full] = None
            return
        with io.FileIO(full) as file:
            data = file.read(MAX_BYTES + 1)
        self.digests[name] = _digest(data)

    def _has_room(self, full: str) -> bool:
        other = os.path.splitext(full)[1].lower() not in _TEXTS  # noqa: PTH122 - asked often
        if len(self.digests) >= MAX_FILES or (other and self._num_others >= MAX_OTHERS):
            self.num_more += 1
            if self.num_more >= _MAX_MORE:
                self.listening = False  # It goes through a data set.
            return False
        self._num_others += other
        return True


def name_of(full: str, roots: tuple[str, ...]) -> str | None:
    """Return the name that a file goes by in the record; None where it is left out.

    Args:
        full: Its absolute path.
        roots: Folders of the program: see `roots_of`.
    """
    folder, _, file = full.rpartition(os.sep)
    suffix = os.path.splitext(file)[1].lower()  # noqa: PTH122 - asked often
    if suffix in _OTHER_SUFFIXES or looks_secret(file) or _of_libraries(full):
        return None
    if file in _RUN_FILES or os.path.exists(os.path.join(folder, "run.json")):  # noqa: PTH110, PTH118
        return None  # A record of everybit's own.
    for root in roots:
        if full.startswith(root + os.sep):
            name = full[len(root) + 1 :]
            return None if _is_hidden(name) else name.replace(os.sep, "/")
    for root in roots:
        name = os.path.relpath(full, root)
        if Path(name).parts.count("..") <= _MAX_UP and _shares(full, root):
            return None if _is_hidden(name.replace("..", "")) else name.replace(os.sep, "/")
    if _is_hidden(full) or _of_system(full):
        return None
    return "/".join(("*", *Path(full).parts[-2:])) if len(Path(full).parts) > 2 else None


def roots_of(script: str, folder: str) -> tuple[str, ...]:
    """Return the folders that a program's own files lie in; the file system's root is none.

    Args:
        script: Its path; "" with none.
        folder: The working directory.
    """
    found = []
    if script and os.path.isfile(script):  # noqa: PTH113
        found.append(os.path.dirname(os.path.abspath(script)))  # noqa: PTH100, PTH120
    found.append(folder)
    return tuple(root for root in dict.fromkeys(found) if root and root != os.path.dirname(root))  # noqa: PTH120


def digest_of(path: Path) -> str:
    """Return the digest of a file as the record has it.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return _digest(file.read(MAX_BYTES + 1))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


#: Of this process: audit hooks are for the life of it.
read_files: Final = ReadFiles()


def _is_own() -> bool:
    """Whether everybit itself opens the file."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _BETWEEN:
            return module.startswith("everybit.")
        frame = frame.f_back
    return False


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in Path(path).parts)


@cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_path(name) for name in names]
    places.append(str(Path(__file__).resolve().parents[1]))
    return tuple(f"{place}{os.sep}" for place in places if place)


def _of_libraries(full: str) -> bool:
    marks = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
    return full.startswith(_library_folders()) or any(mark in full for mark in marks)


@cache
def _system_folders() -> tuple[str, ...]:
    places = [*(f"{os.sep}{name}" for name in _SYSTEM), tempfile.gettempdir()]
    places += [sys.prefix, sys.base_prefix]
    return tuple(f"{place}{os.sep}" for place in dict.fromkeys(places))


def _of_system(full: str) -> bool:
    return full.startswith(_system_folders())


def _shares(full: str, root: str) -> bool:
    """Whether a file and a folder have more in common than the top of the file system."""
    return len(Path(os.path.commonpath([full, root])).parts) > 2
