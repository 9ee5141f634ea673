"""A verdict as terminal text: the answer first, then each finding, then what it stands on."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from everybit.report.comparison import MAX_ROWS, tensor_table
from everybit.report.evaluations_text import cross_lines, sample_lines
from everybit.report.evidence import (
    changes_in,
    describe_change,
    describe_rest,
    facts_in,
)
from everybit.report.place import describe_place
from everybit.report.safe_text import can_draw, for_encoding, printable, printable_message
from everybit.report.sentence import verdict_sentence
from everybit.report.siblings import SIBLING_STATS, describe_siblings
from everybit.report.stats import describe_stats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.core.verdict import Skipped, Verdict

MAX_FINDINGS: Final = 20
MAX_CHANGES: Final = 3
MAX_FACTS: Final = 8
MAX_SKIPPED: Final = 12
INDENT: Final = " " * 9
# Keeps a number and its unit on one line; foreign text cannot hold it (`printable` spells it out).
_HARD_SPACE: Final = "\x1f"

_STYLES: Final[dict[str, str]] = {
    "error": "1;31",
    "warning": "33",
    "note": "36",
    "clean": "1;32",
    "inconclusive": "1;33",
    "findings": "1;31",
    "name": "1",
    "quiet": "2",
}


class _Writer:
    """Lines of one verdict: wrapped, coloured or not, in characters that the terminal has."""

    def __init__(self, *, color: bool, width: int, encoding: str) -> None:
        self._color = color
        self._width = width
        self._encoding = encoding
        self._lines: list[str] = []
        self.arrow = "→" if can_draw(encoding, "→") else "->"

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color and text else text

    def line(self, text: str = "") -> None:
        self._lines.append(for_encoding(text, self._encoding))

    def block(self, text: str, *, first: str = INDENT, rest: str = INDENT, style: str = "") -> None:
        """Wrap plain text under an indent; `first` may hold colour codes of the same width."""
        width = max(self._width - len(rest), 24)
        pieces = textwrap.wrap(
            for_encoding(text, self._encoding), width, break_on_hyphens=False, break_long_words=True
        )
        for index, piece in enumerate(pieces or [""]):
            shown = self.paint(piece, style) if style else piece
            self._lines.append((rest if index else first) + shown)

    def labelled(self, label: str, entries: list[str]) -> None:
        for index, entry in enumerate(entries):
            head = f"{label if index == 0 else '':<13}"
            self.block(entry, first=self.paint(head, "quiet"), rest=" " * 13)

    def text(self) -> str:
        lines = (line.replace(_HARD_SPACE, " ").rstrip() for line in self._lines)
        return "\n".join(lines) + "\n"


def _columns() -> int:
    """Return what `shutil.get_terminal_size` says, without what importing it loads."""
    try:
        columns = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 100  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 100


def render_verdict(
    verdict: Verdict,
    *,
    color: bool,
    verbose: bool,
    width: int | None = None,
    encoding: str | None = None,
) -> str:
    """Return any verb's verdict as text for a terminal.

    Args:
        verdict: What to tell.
        color: Whether to use ANSI colours; the caller honours NO_COLOR and non-terminals.
        verbose: Show all findings and all their evidence, not the first ones.
        width: Columns to wrap at; the terminal's where None.
        encoding: Of where the text goes; standard output's where None. What it cannot hold is
            spelled out in ASCII.

    Returns:
        Lines, each ended by a newline. Control characters in names and messages are spelled out.
    """
    columns = _columns() if width is None else width
    charset = encoding or getattr(sys.stdout, "encoding", None) or "utf-8"
    out = _Writer(color=color, width=min(max(columns, 60), 110), encoding=charset)
    _tell_answer(out, verdict)
    _tell_first(out, verdict, verbose=verbose)
    _tell_findings(out, verdict, verbose=verbose)
    _tell_coverage(out, verdict, verbose=verbose)
    for label, entries in describe_siblings(verdict.stats):
        out.labelled(label, entries)
    numbers = {key: value for key, value in verdict.stats.items() if key not in SIBLING_STATS}
    stats = [phrase.replace(" ", _HARD_SPACE) for phrase in describe_stats(numbers)]
    out.labelled("Stats", [", ".join(stats)] if stats else [])
    return out.text()


def _tell_answer(out: _Writer, verdict: Verdict) -> None:
    severity = verdict.findings[0].severity if verdict.findings else None
    style = str(severity) if severity else str(verdict.status)
    word = str(verdict.status).upper()
    target = ", ".join(printable(item, 80) for item in verdict.target[:3])
    if len(verdict.target) > 3:
        target = f"{target} and {len(verdict.target) - 3} more"
    title = f"everybit {printable(verdict.command, 24)}"
    out.block(f"{title} {target}".strip(), first="", rest="  ", style="quiet")
    lead = out.paint(word, style) + " "
    out.block(verdict_sentence(verdict), first=lead, rest=" " * (len(word) + 1))


def _tell_first(out: _Writer, verdict: Verdict, *, verbose: bool) -> None:
    if verdict.comparison is not None and "cross" in verdict.comparison:
        out.line()
        out.labelled("Scores", cross_lines(verdict.comparison))
    if not verdict.has_first:
        return
    out.line()
    if verdict.first is None:
        out.labelled("First", ["no value parts in what both sides hold"])
    else:
        first = verdict.first
        place = describe_place(first.where) or "place unknown"
        out.labelled("First", [place])
        out.labelled("Kind", [f"{first.kind}: {printable_message(first.why)}"])
    explained = [
        line for item in verdict.explained_by for line in difference_lines(item, out.arrow)
    ]
    out.labelled("Explained by", explained)
    if verdict.comparison is not None:
        out.labelled("Tensors", tensor_table(verdict.comparison, None if verbose else MAX_ROWS))
        out.labelled("Samples", sample_lines(verdict.comparison))


def difference_lines(item: Mapping[str, Any], arrow: str = "->") -> list[str]:
    """Return one entry of `explained_by`, and behind it the lines of code that were changed."""
    lines = [printable(line) for line in item.get("lines") or ()]
    rest = {key: value for key, value in item.items() if key not in ("files", "lines")}
    files = item.get("files") or ()
    if any(files):
        names = " and ".join(dict.fromkeys(printable(file) for file in files if file))
        rest["file" if len({*files} - {None}) == 1 else "files"] = names
    return [describe_difference(rest, arrow), *(f"  {line}" for line in lines)]


def describe_difference(item: Mapping[str, Any], arrow: str = "->") -> str:
    """Return one entry of `explained_by` on a line.

    >>> describe_difference({"entry": "threads.torch", "before": 1, "after": 2, "kind": "setting"})
    'threads.torch: 1 -> 2; kind: setting'
    """
    facts = dict(facts_in(item, 160))
    if {"entry", "before", "after"} <= facts.keys():
        before, after = facts.pop("before") or "(empty)", facts.pop("after") or "(empty)"
        lead = f"{facts.pop('entry')}: {before} {arrow} {after}"
        return "; ".join([lead, *(f"{name}: {value}" for name, value in facts.items())])
    return "; ".join(f"{name}: {value}" for name, value in facts.items())


def _tell_findings(out: _Writer, verdict: Verdict, *, verbose: bool) -> None:
    shown = verdict.findings if verbose else verdict.findings[:MAX_FINDINGS]
    for finding in shown:
        out.line()
        _tell_finding(out, finding, verbose=verbose)
    folded = Counter((f.severity, f.rule, f.slug) for f in verdict.findings[len(shown) :])
    if folded:
        total = sum(folded.values())
        out.line()
        out.block(f"{total:,} more findings (all with -v):", first="", rest="  ")
        for (severity, rule, slug), count in folded.most_common():
            out.block(f"{count:,} {severity} {rule} {printable(slug)}")


def _tell_finding(out: _Writer, finding: Finding, *, verbose: bool) -> None:
    severity = str(finding.severity)
    title = f"{printable(finding.rule, 12)} {printable(finding.slug, 60)}"
    out.line(
        out.paint(f"{severity:<9}", severity)
        + out.paint(title, "name")
        + out.paint(f"  {finding.certainty}", "quiet")
    )
    out.block(describe_place(finding.where))
    out.block(printable_message(finding.message))
    for line in _evidence_lines(finding, out.arrow, verbose=verbose):
        out.block(line, first=INDENT + "  ", rest=INDENT + "    ")
    out.block(f"{printable_message(finding.remedy)}", first=INDENT + "Do: ", rest=INDENT + "    ")


def _evidence_lines(finding: Finding, arrow: str, *, verbose: bool) -> Iterator[str]:
    changes = changes_in(finding.evidence)
    shown = changes if verbose else changes[:MAX_CHANGES]
    for change in shown:
        yield describe_change(change, arrow)
    rest = describe_rest(finding.evidence, len(shown)) if changes else ""
    if rest:
        yield rest
    source = finding.evidence.get("source") if finding.where.line is not None else None
    if isinstance(source, str):
        yield f"{finding.where.line} | {printable_message(source)}"
    facts = [fact for fact in facts_in(finding.evidence) if fact[0] != "source" or source is None]
    told = [f"{name}: {value}" for name, value in (facts if verbose else facts[:MAX_FACTS])]
    if told:
        yield "; ".join(told)


def _tell_coverage(out: _Writer, verdict: Verdict, *, verbose: bool) -> None:
    coverage = verdict.coverage
    if coverage.checked or coverage.skipped or verdict.stats:
        out.line()
    checked = "; ".join(f"{item.count:,} {printable(item.what)}" for item in coverage.checked)
    out.labelled("Checked", [checked] if checked else [])
    # What was promised and missed decides the status, so it comes first.
    skipped = sorted(coverage.skipped, key=lambda item: not item.promised)
    alike = [[item] for item in skipped] if verbose else _by_reason(skipped)
    shown = alike if verbose else alike[:MAX_SKIPPED]
    entries = [_skipped_line(group) for group in shown]
    if left := sum(map(len, alike[len(shown) :])):
        entries.append(f"and {left:,} more (all with -v)")
    out.labelled("Not checked", entries)


def _by_reason(skipped: Sequence[Skipped]) -> list[list[Skipped]]:
    """Return what was skipped in groups of one reason each: a hundred shards are told once."""
    groups: dict[tuple[str, bool], list[Skipped]] = {}
    for item in skipped:
        groups.setdefault((item.why, item.promised), []).append(item)
    return list(groups.values())


def _skipped_line(group: Sequence[Skipped]) -> str:
    first = group[0]
    more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
    tail = "" if first.promised else " (not promised)"
    return f"{printable(first.what)}{more}: {printable_message(first.why, 300)}{tail}"
