"""`everybit rule`."""

from __future__ import annotations

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
