"""Every snippet holds exactly the findings that its first line expects, over all rules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from everybit.api.lint import lint

SNIPPETS = Path(__file__).parent / "snippets"
_EXPECT = re.compile(r"(?:#|//)\s*expect:\s*(.*)")


def _cases():
    """Return `(name, path)`: a file, or a folder whose files are one project."""
    found = []
    for rule in sorted(path for path in SNIPPETS.iterdir() if path.is_dir()):
        paths = (path for path in sorted(rule.iterdir()) if path.name != "__pycache__")
        found += [pytest.param(path, id=f"{rule.name}/{path.name}") for path in paths]
    return found


def _files(path):
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def _first_line(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        code = next(cell for cell in cells if cell["cell_type"] == "code")
        text = "".join(code["source"])
    return text.splitlines()[0] if text else ""


def _expected(path):
    """Return `{(rule, place)}` of one file; None for a file that says nothing (an `__init__`)."""
    found = _EXPECT.match(_first_line(path))
    if found is None:
        return None
    what = found[1].strip()
    if what.startswith("none"):
        return set()
    expected = set()
    for item in what.partition("(")[0].split(","):
        rule, _, place = item.strip().partition("@")
        assert re.fullmatch(r"SRC\d{3}", rule), (path, item)
        assert re.fullmatch(r"\d+(\.\d+)?", place), (path, item)
        expected.add((rule, place))
    return expected


def _told(verdict, name):
    found = set()
    for finding in verdict.findings:
        if finding.where.path == name:
            cell = f"{finding.where.member.removeprefix('cell ')}." if finding.where.member else ""
            found.add((finding.rule, f"{cell}{finding.where.line}"))
    return found


@pytest.mark.parametrize("path", _cases())
def test_a_snippet_holds_what_its_first_line_expects(path):
    verdict = lint(path)
    files = _files(path)
    expected = {each: _expected(each) for each in files}
    assert any(value is not None for value in expected.values()), "no `# expect:` line"
    for each, wanted in expected.items():
        name = each.relative_to(path).as_posix() if path.is_dir() else each.as_posix()
        assert _told(verdict, name) == (wanted or set()), each.name
    assert not verdict.coverage.skipped
