"""Run the checks over files and tell their hits as findings."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Finding, Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.source.choosing import choose_checks, holds
from everybit.source.once import without_wrapped
from everybit.source.project import Project
from everybit.source.reading import Refused, SourceFile, lines_of, read_text
from everybit.source.registry import Check, all_checks
from everybit.source.suppressing import Suppression, read_suppressions, suppresses
from everybit.source.texts import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from everybit.source.hit import Fix, Hit
    from everybit.source.module import Module
    from everybit.source.walking import Found

#: A source line is shown up to here.
_MAX_SHOWN: Final = 160
#: Fields of compound statements that hold other statements.
_BODIES: Final = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
UNEXPLAINED: Final = "SRC317"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """A hit as a finding, with what a baseline and a fix need.

    Attributes:
        finding: The finding.
        found: The file.
        source: The line of source it stands in.
        around: The function or class it stands in.
        fix: A certain fix.
        cell: Of a notebook, the code cell.
    """

    finding: Finding
    found: Found
    source: str
    around: str = ""
    fix: Fix | None = None
    cell: int | None = None


@dataclass(slots=True, kw_only=True)
class Linted:
    """What the checks came to.

    Attributes:
        told: In the order of the files and lines.
        suppressed: How many hits a comment hid.
        skipped: What could not be read.
        checked: `{what: how many}`.
        num_bytes: Bytes read.
        files: The parsed files, by path.
    """

    told: list[Told] = field(default_factory=list)
    suppressed: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    num_bytes: int = 0
    files: dict[Path, SourceFile] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        """Note that a check ran on more things."""
        self.checked[what] = self.checked.get(what, 0) + number


def lint_files(
    files: Sequence[Found],
    *,
    roots: tuple[Path, ...] = (),
    texts: Mapping[Path, str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Linted:
    """Run all checks over files.

    Args:
        files: What to read.
        roots: Folders that were asked about.
        texts: What to read in place of some files.
        progress: Is told the number of files done.
    """
    linted = Linted()
    project = Project(roots, texts)
    checks = all_checks()
    code: list[tuple[Found, str]] = []
    for found in files:
        given = (texts or {}).get(found.path.resolve()) if texts else None
        try:
            read = read_text(found.path) if given is None else (given, "utf-8")
        except OSError as error:
            _skip(linted, found.shown, (error.strerror or str(error)).lower())
            continue
        if isinstance(read, Refused):
            _skip(linted, found.shown, read.why)
            continue
        text, _ = read
        linted.num_bytes += len(text)
        if found.kind is not None:
            _lint_text(linted, found, text, checks)
            progress(1)
        else:
            project.remember(found.path, text)
            code.append((found, text))
    _lint_code(linted, project, code, checks, progress)
    linted.told.sort(key=_order)
    return linted


def _order(told: Told) -> tuple[str, int, int, int, str]:
    where = told.finding.where
    return (
        told.found.shown, told.cell or 0, where.line or 0, where.column or 0, told.finding.rule,
    )  # fmt: skip


def _skip(linted: Linted, what: str, why: str) -> None:
    linted.skipped.append(Skipped(what=what, why=why))


def _lint_text(linted: Linted, found: Found, text: str, checks: Sequence[Check]) -> None:
    assert found.kind is not None
    linted.count("other text files")
    hits: list[Hit] = []
    for check in checks:
        if check.check_text is not None and holds(text, check.words):
            hits += check.check_text(Text(path=found.shown, kind=found.kind, text=text))
    suppressions = read_suppressions(text)
    lines = text.splitlines()
    for hit in sorted(hits, key=lambda hit: (hit.line or 0, hit.column or 0)):
        number = hit.line or 1
        if _suppressed(linted, suppressions, hit.rule, number, number):
            continue
        source = lines[number - 1] if number <= len(lines) else ""
        where = Location(path=found.shown, line=number, column=hit.column or 1)
        linted.told.append(_told(hit, found, where, source))
    _tell_unexplained(linted, found, suppressions, None, lines)


def _lint_code(
    linted: Linted,
    project: Project,
    code: list[tuple[Found, str]],
    checks: Sequence[Check],
    progress: Callable[[int], None],
) -> None:
    wanting = choose_checks([(found.path, text) for found, text in code], checks)
    for (found, text), wanted in zip(code, wanting, strict=True):
        linted.count("notebooks" if found.path.suffix.lower() == ".ipynb" else "Python files")
        if wanted or suppresses(text):
            _lint_module(linted, project, found, wanted)
        progress(1)


def _lint_module(linted: Linted, project: Project, found: Found, checks: Sequence[Check]) -> None:
    read = project.read(found.path, found.shown)
    if isinstance(read, Refused):
        _skip(linted, found.shown, read.why)
        return
    module, file = read
    linted.files[found.path] = file
    for what, why in file.unread:
        _skip(linted, f"{found.shown}, {what}", why)
    hits: list[Hit] = []
    for check in checks:
        try:
            hits += check.check(module)
        except RecursionError:
            _skip(linted, found.shown, f"{check.rule}: nested too deeply to be followed")
    hits = without_wrapped(module, hits, checks)
    suppressions = read_suppressions(file.text, _comments(file.text))
    lines = lines_of(file.text)
    for hit in sorted(hits, key=lambda hit: (*_place(hit), hit.rule)):
        first, last = _span(module, hit, lines)
        if _suppressed(linted, suppressions, hit.rule, first, last):
            continue
        line, column = _place(hit)
        text = lines[line - 1] if line <= len(lines) else ""
        where, cell = _where(found.shown, file, line, _column(text, column))
        around = _around(module, hit)
        linted.told.append(_told(hit, found, where, text, around=around, cell=cell))
    _tell_unexplained(linted, found, suppressions, file, lines)


def _place(hit: Hit) -> tuple[int, int]:
    if hit.node is not None:
        return getattr(hit.node, "lineno", 1), getattr(hit.node, "col_offset", 0)
    return hit.line or 1, (hit.column or 1) - 1


def _column(line: str, offset: int) -> int:
    """Return the column in characters, from 1, of an offset in bytes of UTF-8."""
    if line.isascii():
        return min(offset, len(line)) + 1
    return len(line.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore")) + 1


def _span(module: Module, hit: Hit, lines: Sequence[str]) -> tuple[int, int]:
    """Return the lines whose comments speak of a hit: those of its statement, or of its head."""
    line, _ = _place(hit)
    if hit.node is None:
        return line, line
    statement: Any = hit.node
    if isinstance(hit.node, ast.expr | ast.keyword | ast.arg | ast.alias):
        statement = module.enclosing(hit.node, ast.stmt) or hit.node
    first = getattr(statement, "lineno", line)
    for decorator in getattr(statement, "decorator_list", ()):
        first = min(first, decorator.lineno)
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not isinstance(body, list):
        return first, getattr(statement, "end_lineno", None) or line
    last = _end_of_head(statement, lines)
    if first <= line <= last:
        return first, last
    return line, getattr(hit.node, "end_lineno", None) or line  # in the head of a handler


def _end_of_head(statement: ast.AST, lines: Sequence[str]) -> int:
    """Return the last line of what stands before the body of a compound statement."""
    last = int(getattr(statement, "lineno", 1))
    for name, value in ast.iter_fields(statement):
        if name in _BODIES:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                last = max([last, *(getattr(each, "end_lineno", 0) for each in ast.walk(child))])
    while last < len(lines) and lines[last].lstrip().startswith((")", "]", "}", ":")):
        last += 1
    return last


def _where(shown: str, file: SourceFile, line: int, column: int) -> tuple[Location, int | None]:
    if file.cells is None:
        return Location(path=shown, line=line, column=column), None
    place = file.cells[min(line, len(file.cells)) - 1]
    where = Location(path=shown, member=f"cell {place.cell}", line=place.line, column=column)
    return where, place.cell


def _around(module: Module, hit: Hit) -> str:
    if hit.node is None:
        return ""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    owner = hit.node if isinstance(hit.node, kinds) else module.enclosing(hit.node, *kinds)
    return module.qualified(owner).removeprefix(module.name) if owner is not None else ""


def _told(
    hit: Hit,
    found: Found,
    where: Location,
    source: str,
    *,
    around: str = "",
    cell: int | None = None,
) -> Told:
    evidence: dict[str, Any] = {"source": source.strip()[:_MAX_SHOWN], **hit.evidence}
    if hit.fix is not None:
        evidence["fix"] = hit.fix.what
    finding = rule(hit.rule).finding(
        hit.message,
        where=where,
        evidence=evidence,
        remedy=hit.remedy or "",
        severity=hit.severity,
        certainty=hit.certainty,
    )
    return Told(finding=finding, found=found, source=source, around=around, fix=hit.fix, cell=cell)


def _suppressed(
    linted: Linted, suppressions: Sequence[Suppression], rule_id: str, first: int, last: int
) -> bool:
    for each in suppressions:
        if rule_id in each.rules and any(first <= line <= last for line in each.lines):
            linted.suppressed += 1
            return True
    return False


def _comments(text: str) -> list[tuple[int, int]] | None:
    """Return where the comments of Python code are, without those in strings."""
    if not suppresses(text):
        return []
    try:
        return [
            token.start
            for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline)
            if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return None


def _tell_unexplained(
    linted: Linted,
    found: Found,
    suppressions: Sequence[Suppression],
    file: SourceFile | None,
    lines: Sequence[str],
) -> None:
    for each in suppressions:
        if not each.fault:
            continue
        place = (found.shown, each.line, each.column)
        where = Location(path=place[0], line=place[1], column=place[2])
        cell = None
        if file is not None:
            where, cell = _where(found.shown, file, each.line, each.column)
        source = lines[each.line - 1]
        finding = rule(UNEXPLAINED).finding(
            f"The comment {each.fault}.", where=where, evidence={"source": source.strip()}
        )
        linted.told.append(Told(finding=finding, found=found, source=source, cell=cell))
