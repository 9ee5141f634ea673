"""Failures as one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys

import click

from everybit.core.errors import EverybitError, FindingsError, PathError, StoppedError

#: The request cannot be carried out as asked.
EXIT_USAGE = 2
#: Something that was promised was not checked; an internal error is that, and never a finding.
EXIT_UNCHECKED = 3
EXIT_FINDINGS = 1
EXIT_INTERRUPTED = 130


def tell(line: str) -> None:
    """Write one line to stderr, with control characters made visible."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    try:
        sys.stderr.write(f"everybit: {shown}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # Nobody listens; the exit code still speaks.


def exit_code_of(error: BaseException) -> int:
    """Tell `error` in one line (an internal one with its traceback); return the exit code."""
    if isinstance(error, click.ClickException):
        tell(_click_line(error))
        return EXIT_USAGE
    if isinstance(error, (StoppedError, FindingsError)):
        tell(error.line())
        return EXIT_FINDINGS
    if isinstance(error, EverybitError):
        tell(error.line())
        return EXIT_USAGE
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        tell("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        silence_stdout()
        return 0
    if isinstance(error, OSError):
        place = error.filename if error.filename is not None else "standard output"
        tell(PathError.from_os_error(error, place).line())
        silence_stdout()
        return EXIT_USAGE
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        tell(f"{error.name} is not installed; `pip install 'everybit[{extra}]'` adds it")
        return EXIT_USAGE
    import traceback

    traceback.print_exception(error)
    tell(
        f"internal error ({type(error).__name__}), not a finding; nothing can be concluded, "
        "please report it with the lines above"
    )
    return EXIT_UNCHECKED


_EXTRAS = {"torch": "torch", "pynvml": "gpu"}


def silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail again."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        pass


def _click_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{text}; see `{error.ctx.command_path} --help`"
    return text
