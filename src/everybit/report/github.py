"""A verdict as workflow commands of GitHub Actions: annotations at the lines they are about.

The form is that of the documentation of GitHub Actions (https://docs.github.com/actions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.report.place import describe_place
from everybit.report.safe_text import printable_message
from everybit.report.written_place import find_file

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict

_COMMANDS: Final = {
    Severity.NOTE: "notice",
    Severity.WARNING: "warning",
    Severity.ERROR: "error",
}


def verdict_github(verdict: Verdict) -> str:
    """Return a line for each finding and each check that did not run, and one for the whole."""
    lines = [_finding(verdict, finding) for finding in verdict.findings]
    lines += [
        _command("warning", {"title": "everybit could not check"}, f"{item.what}: {item.why}")
        for item in verdict.coverage.skipped
        if item.promised
    ]
    counted = ", ".join(f"{item.what}: {item.count}" for item in verdict.coverage.checked)
    told = f"everybit {verdict.command}: {verdict.status}"
    lines.append(printable_message(f"{told} ({counted})" if counted else told))
    return "\n".join(lines) + "\n"


def _finding(verdict: Verdict, finding: Finding) -> str:
    where = finding.where
    properties = {"file": find_file(verdict, finding)}
    if where.line is not None:
        properties["line"] = str(where.line)
        if where.column is not None:
            properties["col"] = str(where.column)
    properties["title"] = f"{finding.rule} {finding.slug}"
    place = "" if where.line is not None else f" [{describe_place(where)}]"
    text = f"{finding.message}{place} {finding.remedy}"
    return _command(_COMMANDS[finding.severity], properties, text)


def _command(name: str, properties: dict[str, str], text: str) -> str:
    written = ",".join(
        f"{key}={_escape(printable_message(value)).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
    )
    return f"::{name} {written}::{_escape(printable_message(text))}"


def _escape(text: str) -> str:
    """Return text as a command carries it: it must stay one line and hold no escape of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
