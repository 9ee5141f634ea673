"""Read a Python file or a notebook: its text, its syntax tree, and where its lines came from."""

from __future__ import annotations

import ast
import io
import re
import stat
import tokenize
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: A larger file is no code that somebody wrote; its tree would take gigabytes.
MAX_BYTES: Final = 8 * 1024 * 1024
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine:
    """Where a line of joined cells came from.

    Attributes:
        cell: The code cell, from 1.
        line: The line in it, from 1.
    """

    cell: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceFile:
    """A file that was read and parsed.

    Attributes:
        text: The source; of a notebook, its cells joined and its magics blanked.
        tree: The syntax tree.
        encoding: How the bytes are to be read.
        cells: Of a notebook: where each line came from, in order.
        magics: Of a notebook: the lines that were blanked, by their number in `text`.
        unread: Cells that cannot be parsed, each with why.
    """

    text: str
    tree: ast.Module
    encoding: str = "utf-8"
    cells: tuple[CellLine, ...] | None = None
    magics: tuple[tuple[int, str], ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a file was not parsed."""

    why: str


def read_text(path: Path) -> tuple[str, str] | Refused:
    """Return a file's text and encoding.

    Raises:
        OSError: It cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return Refused("no regular file: a pipe or device could be read without end")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return Refused(f"larger than {MAX_BYTES // 1024**2} MiB")
    return decode(data)


def decode(data: bytes) -> tuple[str, str] | Refused:
    """Return the text of Python source and its encoding: a byte order mark, a comment, UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding), encoding
    except (SyntaxError, LookupError) as error:
        return Refused(f"its encoding is not known ({_one_line(error)})")
    except ValueError as error:
        return Refused(f"it is not in its encoding ({_one_line(error)})")


def read_source(path: Path, given: str | None = None) -> SourceFile | Refused:
    """Read and parse a Python file or notebook; nothing of it is run.

    A file that cannot be opened is refused like one that cannot be parsed.

    Args:
        path: The file.
        given: Its text, where it is not to be read.
    """
    try:
        found = read_text(path) if given is None else (given, "utf-8")
    except OSError as error:
        return Refused((error.strerror or str(error)).lower())
    if isinstance(found, Refused):
        return found
    text, encoding = found
    if path.suffix.lower() == ".ipynb":
        from everybit.source.notebook import read_notebook

        return read_notebook(text)
    tree = parse(text)
    if isinstance(tree, Refused):
        return tree
    return SourceFile(text=text, tree=tree, encoding=encoding)


def parse(text: str) -> ast.Module | Refused:
    """Return the syntax tree of a text, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the style of what is read
            return ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return Refused(f"no Python that this version reads ({where}{_one_line(error.msg)})")
    except ValueError as error:
        return Refused(f"no Python ({_one_line(error)})")
    except (RecursionError, MemoryError):
        return Refused("nested too deeply to be parsed")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as Python counts them, without their ends."""
    return _LINE_END.split(text)


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:160]
