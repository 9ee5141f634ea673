"""Configs and templates whose first bytes, or whose spelling, hide what they ask for."""

from __future__ import annotations

import json

import pytest

from everybit import scan

CODE = json.dumps({"model_type": "x", "auto_map": {"AutoModel": "m.Model"}})


def told(tmp_path, name: str, text: str) -> set[tuple[str, str]]:
    """Rule and severity of what is told of a folder with one file."""
    (tmp_path / name).write_text(text)
    return {(found.rule, str(found.severity)) for found in scan(tmp_path).findings}


@pytest.mark.parametrize("before", [" " * 3000, "\n" * 70_000, "\ufeff" + "\t" * 2000])
def test_blanks_before_a_config_hide_nothing(tmp_path, before):
    assert {rule for rule, _ in told(tmp_path, "config.json", before + CODE)} == {"PKL205"}


@pytest.mark.parametrize(
    "template",
    ["{{ ''['__cl'~'ass__'] }}", "{% set a = '__cla' %}{{ x[a + 'ss__'] }}"],
)
def test_a_name_in_pieces_is_told(tmp_path, template):
    text = json.dumps({"chat_template": template})
    assert told(tmp_path, "config.json", text) == {("PKL205", "warning")}


def test_usual_templates_and_blank_files_are_no_finding(tmp_path):
    template = "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    text = json.dumps({"chat_template": template, "name": "__pad__"})
    assert told(tmp_path, "tokenizer_config.json", text) == set()
    assert told(tmp_path, "blank.txt", "\n" * 5000) == set()


def test_a_template_too_long_to_be_read_was_not_checked(tmp_path):
    (tmp_path / "chat_template.jinja").write_text(" " * (17 << 20) + "{{ x.__class__ }}")
    verdict = scan(tmp_path)
    assert [found.rule for found in verdict.findings] == ["PKL203"]
    assert verdict.coverage.skipped[0].promised
