"""`everybit rule`."""

from __future__ import annotations

import pytest

from everybit.core.rule import all_rules, rule


def test_a_page_by_id_and_by_slug(run):
    code, out, err = run("rule", "mem601")
    assert (code, out, err) == (0, rule("MEM601").page, "")
    assert run("rule", "weights-changed-at-rest")[1] == out


def test_all_rules_one_a_line(run):
    code, out, _ = run("rule", "--all")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [each.id, each.slug, str(each.severity)] for each in all_rules()
    ]


@pytest.mark.parametrize(
    ("message", "rules", "words"),
    [
        ("UnpicklingError: invalid load key, 'v'.", ["FIL118"], "git-LFS pointer"),
        ("EOFError", ["FIL118", "FIL104"], "empty"),
        ("RuntimeError: PytorchStreamReader failed reading file data/3: file read failed",
         ["FIL107", "FIL104"], "record data/3"),
    ],
)  # fmt: skip
def test_a_pasted_message_is_explained(run, message, rules, words):
    code, out, err = run("rule", message)
    assert (code, err) == (0, "")
    assert words in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == rules


def test_a_message_that_nobody_knows_is_one_honest_line(run):
    code, out, err = run("rule", "ValueError: too many values to unpack")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "no message that everybit knows" in err
    assert run("rule", "FIL999")[2].startswith("everybit: no rule 'FIL999'")
