"""How `bench/lint.py` compares linters: by statement, and by what a rule is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.lint import ROOT, judge, matches, span
from bench.lint_peers import Told
from bench.lint_snippets import Snippet, read_expected
from bench.lint_table import table

CODE = "import torch\n\nfor path in paths:\n    state = torch.load(\n        path,\n    )\n"


def _told(rule, line, file="src301/a.py", cell=0):
    return Told(file=file, rule=rule, cell=cell, start=line, stop=line)


def _snippet(name, expected):
    return Snippet(name=name, path=Path(name), expected={"a.py": frozenset(expected)})


@pytest.mark.parametrize(
    ("line", "lines"), [(1, (1, 1)), (3, (3, 3)), (4, (4, 6)), (5, (4, 6)), (9, (9, 9))]
)
def test_the_statement_around_a_line(line, lines):
    assert span(CODE, line) == lines


def test_a_place_is_met_on_its_statement_or_in_its_cell():
    assert matches(_told("B614", 5), "4", (4, 6))
    assert not matches(_told("B614", 7), "4", (4, 6))
    assert matches(_told("S301", 2, cell=3), "3.2", (0, 0))
    assert not matches(_told("S301", 2, cell=4), "3.2", (0, 0))


def test_only_a_rule_about_the_same_thing_counts():
    unsafe, harmless = _snippet("src301/a.py", {("SRC301", "4")}), _snippet("src302/b.py", ())
    items = [{"snippet": "src301/a.py", "rule": "SRC301", "place": "4", "lines": (4, 6),
              "file": "src301/a.py", "suffix": ".py"}]  # fmt: skip
    told = [_told("SIM115", 4), _told("B403", 1, "src302/b.py"), _told("B301", 2, "src302/b.py")]
    result = judge(told, items, [unsafe, harmless])
    assert result["found"] == []
    assert result["other"] == [["src301/a.py", "SRC301", "SIM115"]]
    assert result["false_alarms"] == [["src302/b.py", "B301", 2]]
    result = judge([*told, _told("B614", 6), _told("B614", 9)], items, [unsafe, harmless])
    assert result["found"] == [0]
    assert result["elsewhere"] == [["src301/a.py", "B614", 9]]


def test_an_import_is_told_apart():
    snippet = _snippet("src302/a.py", {("SRC302", "4")})
    items = [{"snippet": "src302/a.py", "rule": "SRC302", "place": "4", "lines": (4, 4),
              "file": "src302/a.py", "suffix": ".py"}]  # fmt: skip
    result = judge([_told("B403", 1, "src302/a.py")], items, [snippet])
    assert (result["found"], result["by_import"], result["false_alarms"]) == ([], [0], [])


@pytest.mark.parametrize("text", ["SRC301 4", "SRC301@x", "src301@4", "SRC301@4,"])
def test_an_expectation_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "a.py").write_text(f"# expect: {text}\n")
    with pytest.raises(ValueError, match="no list of findings"):
        read_expected(tmp_path / "a.py")


def test_times_of_an_earlier_result_are_said_to_be_so():
    result = json.loads((ROOT / "bench/results/lint.json").read_text())
    result.pop("seconds_at", None)
    assert "taken in turn." in table(result)
    result["seconds_at"] = {"commit": "abc1234", "snippets": 7}
    assert "taken in turn, at commit abc1234 over 7 snippets." in table(result)
