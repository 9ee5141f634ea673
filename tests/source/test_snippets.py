"""Every snippet holds exactly the findings that its first line expects, over all rules."""

from __future__ import annotations

import pytest
from bench.lint_snippets import read_snippets

from everybit.api.lint import lint

SNIPPETS = read_snippets()


def _told(verdict, name):
    found = set()
    for finding in verdict.findings:
        if finding.where.path == name:
            cell = f"{finding.where.member.removeprefix('cell ')}." if finding.where.member else ""
            found.add((finding.rule, f"{cell}{finding.where.line}"))
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[snippet.name for snippet in SNIPPETS])
def test_a_snippet_holds_what_its_first_line_expects(snippet):
    verdict = lint(snippet.path)
    expected = snippet.expected
    assert any(value is not None for value in expected.values()), "no `# expect:` line"
    for file, wanted in expected.items():
        name = file if snippet.path.is_dir() else snippet.path.as_posix()
        assert _told(verdict, name) == (wanted or set()), file
    assert not verdict.coverage.skipped
