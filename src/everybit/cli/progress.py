"""A progress bar on stderr for long reads; nothing at all for short ones or without a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from everybit.cli.output import Output

#: Reading less than this is over before a bar could be read.
_LONG_BYTES: Final = 256 * 1024 * 1024
#: So few files are looked into before a bar could be read.
_MANY_FILES: Final = 200


@contextlib.contextmanager
def reading(output: Output, label: str, paths: Iterable[Path]) -> Iterator[Callable[[int], None]]:
    """Yield a function to be told the bytes read; draws a bar where somebody can see it.

    Args:
        output: Knows whether there is a terminal.
        label: What is being done.
        paths: What will be read, for the total.
    """
    total = _total(paths) if output.shows_progress else 0
    if total < _LONG_BYTES:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn(label),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda num_bytes: bar.advance(task, num_bytes)


@contextlib.contextmanager
def counting(output: Output, label: str, paths: Iterable[Path]) -> Iterator[Callable[[int], None]]:
    """Yield a function to be told the files done; draws a bar where there are many of them.

    Args:
        output: Knows whether there is a terminal.
        label: What is being done.
        paths: Files and folders, for the total.
    """
    total = _num_files(paths) if output.shows_progress else 0
    if total < _MANY_FILES:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda num_files: bar.advance(task, num_files)


def draw_count(label: str, done: int, total: int, told: str = "") -> None:
    """Draw one line of a bar over the last one, on stderr; at the end nothing of it is left.

    Args:
        label: What is counted.
        done: How many are done.
        total: Of how many.
        told: What is being done now.
    """
    bar = "#" * (24 * done // max(1, total))
    sys.stderr.write(f"\r\x1b[K   {label} [{bar:<24}] {done}/{total}{told and f'  {told}'}")
    if done == total:
        wipe()
    sys.stderr.flush()


def wipe() -> None:
    """Take the line of a bar away."""
    sys.stderr.write("\r\x1b[K")


def _num_files(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += sum(file.is_file() for file in path.rglob("*")) if path.is_dir() else 1
    return total


def _total(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_dir():
                total += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            else:
                total += path.stat().st_size
    return total
