"""Where a verb's answer goes: stdout or `-o FILE`, as text or JSON, and the exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from everybit.cli.failure import silence_stdout, tell
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.config import Format
from everybit.core.verdict import default_fail_on

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from everybit.core.config import Config
    from everybit.core.verdict import Verdict


def wants_color(stream: TextIO) -> bool:
    """Whether colour belongs on `stream`: NO_COLOR says no, FORCE_COLOR yes, else a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def emit(text: str) -> None:
    """Write `text` to stdout; a reader that went away is no error."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()


class Output:
    """Renders a verb's verdict.

    Args:
        config: Its `format`, `fail_on`, `exit_zero`, `quiet` and `verbose`.
        file: `-o FILE`; stdout where None.

    Raises:
        PathError: `file` cannot be written. Known before the work begins.
    """

    def __init__(self, config: Config, file: Path | None = None) -> None:
        self.config = config
        self.file = file
        if file is not None:
            check_writable(file)

    @property
    def color(self) -> bool:
        """Whether the verdict is printed in colour."""
        return self.file is None and wants_color(sys.stdout)

    @property
    def shows_progress(self) -> bool:
        """Whether long work should show its progress on stderr."""
        return sys.stderr.isatty() and not self.config.quiet

    def note(self, line: str) -> None:
        """Write a line about the work to stderr, unless `--quiet`."""
        if not self.config.quiet:
            tell(line)

    def verdict(self, verdict: Verdict) -> int:
        """Render `verdict` where it belongs and return the exit code.

        Raises:
            PathError: `-o FILE` failed after all; the verdict was printed to stdout instead.
        """
        text = self.render(verdict)
        if self.file is None:
            emit(text)
        else:
            try:
                write_atomically(self.file, text.encode("utf-8", "backslashreplace"))
            except BaseException:
                emit(text)
                raise
            self.note(f"verdict ({verdict.status}) written to {self.file}")
        return self.exit_code(verdict)

    def render(self, verdict: Verdict) -> str:
        """Return the verdict in the format asked for."""
        match self.config.format:
            case Format.JSON:
                from everybit.report.strict_json import verdict_json

                return verdict_json(verdict) + "\n"
            case Format.SARIF:
                from everybit.report.sarif import verdict_sarif

                return verdict_sarif(verdict, exit_code=self.exit_code(verdict)) + "\n"
            case Format.JUNIT:
                from everybit.report.junit import verdict_junit

                fail_on = self.config.fail_on or default_fail_on(verdict.command)
                return verdict_junit(verdict, fail_on=fail_on)
            case Format.GITHUB:
                from everybit.report.github import verdict_github

                return verdict_github(verdict)
        from everybit.report.text import render_verdict

        return render_verdict(verdict, color=self.color, verbose=self.config.verbose)

    def exit_code(self, verdict: Verdict) -> int:
        """Return the exit code that `verdict` means under `--fail-on` and `--exit-zero`."""
        return 0 if self.config.exit_zero else verdict.exit_code(self.config.fail_on)
