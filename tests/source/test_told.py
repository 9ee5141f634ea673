"""Comments that hide findings, the baseline, and the fixes."""

from __future__ import annotations

import ast
import json
import os

import pytest
from tests.source.reading_code import written

import everybit
from everybit.source.fixing import apply_fixes
from everybit.source.hit import Fix, Hit, InsertBefore, InsertFirst, ReplaceExpression, SetArgument
from everybit.source.registry import Check

BAD = "torch.load(p, weights_only=False)"


def rules(verdict):
    return [(f.rule, f.where.line) for f in verdict.findings]


SUPPRESSED = {
    "on the line": f"import torch\n{BAD}  # everybit: ignore[SRC301] our own file\n",
    "above": f"import torch\n# everybit: ignore[SRC301] our own file\n{BAD}\n",
    "above a comment": f"import torch\n# everybit: ignore[SRC301] our own file\n# why\n{BAD}\n",
    "at the end": "import torch\nx = torch.load(\n  p,\n  weights_only=False,\n"
    ")  # everybit: ignore[SRC301] our own file\n",
    "several": f"import torch\n{BAD}  # everybit: ignore[SRC302, SRC301]: our own file\n",
}


@pytest.mark.parametrize("text", SUPPRESSED.values(), ids=SUPPRESSED.keys())
def test_a_comment_with_a_reason_hides_a_finding(tmp_path, text):
    verdict = everybit.lint(written(tmp_path, {"a.py": text}))
    assert rules(verdict) == []
    assert verdict.stats["suppressed"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"import torch\n{BAD}  # everybit: ignore[SRC301]\n", [("SRC317", 2)]),
        (f"import torch\n{BAD}  # everybit: ignore[SRC301] -\n", [("SRC317", 2)]),
        (f"import torch\n{BAD}  # everybit: ignore our own\n", [("SRC301", 2), ("SRC317", 2)]),
        (f"import torch\n{BAD}  # everybit: ignore[SRC302] our own\n", [("SRC301", 2)]),
        (f"import torch\ns = '# everybit: ignore[SRC301] our own'; {BAD}\n", [("SRC301", 2)]),
        (f"import torch\n{BAD}\n# everybit: ignore[SRC301] our own\nx = 1\n", [("SRC301", 2)]),
    ],
)
def test_a_comment_that_says_too_little_is_told(tmp_path, text, expected):
    assert rules(everybit.lint(written(tmp_path, {"a.py": text}))) == expected


def test_a_baseline_survives_moves_and_counts(tmp_path):
    known = tmp_path / "known.json"
    code = f"import torch\ndef f(p):\n    {BAD}\n"
    written(tmp_path, {"a.py": code})
    assert everybit.lint(tmp_path, baseline=known, update_baseline=True).ok
    assert json.loads(known.read_text())["findings"][0]["around"] == ".f"
    written(tmp_path, {"a.py": f"import torch\n\n\nx = 1\ndef f(p):\n    {BAD}\n"})
    verdict = everybit.lint(tmp_path, baseline=known)
    assert verdict.ok
    assert verdict.stats["known"] == 1
    # The same line again is new; in another function too.
    written(tmp_path, {"a.py": code + f"    {BAD}\ndef g(p):\n    {BAD}\n"})
    assert rules(everybit.lint(tmp_path, baseline=known)) == [("SRC301", 4), ("SRC301", 6)]
    written(tmp_path, {"a.py": "import torch\n"})
    assert everybit.lint(tmp_path, baseline=known).stats["known_and_gone"] == 1


def test_a_baseline_is_the_same_from_any_folder(tmp_path, monkeypatch):
    known = tmp_path / "known.json"
    written(tmp_path, {"src/a.py": f"import torch\n{BAD}\n"})
    everybit.lint(tmp_path, baseline=known, update_baseline=True)
    monkeypatch.chdir(tmp_path / "src")
    assert everybit.lint("a.py", baseline="../known.json").ok


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "x"}', '{"schema": "everybit.baseline/1"}',
             '{"schema": "everybit.baseline/1", "findings": [1]}', "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_no_baseline_is_an_error(tmp_path, text):
    known = tmp_path / "known.json"
    known.write_text(text)
    with pytest.raises(everybit.UsageError, match="no baseline"):
        everybit.lint(tmp_path, baseline=known)
    with pytest.raises(everybit.UsageError, match="write it first"):
        everybit.lint(tmp_path, baseline=tmp_path / "none.json")


def fixed(text, make, *, imports=()):
    tree = ast.parse(text)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"
    ]
    fixes = [Fix(what="x", edits=(make(call),), imports=imports) for call in calls]
    return apply_fixes(text, fixes)


LAYOUTS = {
    "x = torch.load(p)\n": "x = torch.load(p, weights_only=True)\n",
    "x = torch.load()\n": "x = torch.load(weights_only=True)\n",
    "x = torch.load('ä', p)  # ö\n": "x = torch.load('ä', p, weights_only=True)  # ö\n",
    "x = torch.load(p, weights_only = 0,)\n": "x = torch.load(p, weights_only = True,)\n",
    "x = torch.load(\n    p,\n    a=b,\n)\n": "x = torch.load(\n    p,\n    a=b,\n    NEW,\n)\n",
    "x = torch.load(\n    p,  # here\n)\n": "x = torch.load(\n    p,  # here\n    NEW,\n)\n",
    "x = torch.load(\n    p  # here\n)\n": "x = torch.load(\n    p, NEW  # here\n)\n",
    "x = (torch.load(p)\r\n  )\r\n": "x = (torch.load(p, NEW)\r\n  )\r\n",
    "x=torch.load(torch.load(p))": "x=torch.load(torch.load(p, NEW), NEW)",
}


@pytest.mark.parametrize("before", LAYOUTS)
def test_an_argument_is_set_in_the_layout_of_the_call(before):
    make = lambda call: SetArgument(call=call, name="weights_only", value="True")  # noqa: E731
    assert fixed(before, make) == LAYOUTS[before].replace("NEW", "weights_only=True")


def test_a_fix_that_may_give_a_keyword_twice_is_not_made():
    make = lambda call: SetArgument(call=call, name="weights_only", value="True")  # noqa: E731
    assert fixed("torch.load(p, **k)\n", make) is None
    assert fixed("torch.load(p, weights_only=False, **k)\n", make) is not None


def test_an_import_is_added_below_the_docstring_once():
    make = lambda call: ReplaceExpression(node=call, text="os.stat(p)")  # noqa: E731
    text = '"""Doc."""\nfrom __future__ import annotations\nimport torch\ntorch.load(p)\n'
    assert fixed(text, make, imports=("os",)) == (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport os\nimport torch\nos.stat(p)\n'
    )
    assert fixed("import os\ntorch.load(p)\n", make, imports=("os",)) == "import os\nos.stat(p)\n"


def test_statements_are_put_in_at_their_indentation():
    text = "for e in r:  # c\n\n    # why\n    go(e); more()\n"
    loop = ast.parse(text).body[0]
    edits = (
        InsertFirst(block=loop, text="s.set_epoch(e)"),
        InsertBefore(statement=loop.body[0], text="before()"),
    )
    assert apply_fixes(text, [Fix(what="x", edits=edits)]) == (
        "for e in r:  # c\n    s.set_epoch(e)\n\n    before()\n    # why\n    go(e); more()\n"
    )


@pytest.fixture
def fixing(monkeypatch):
    """One check alone: every `torch.load` without `weights_only` gets it."""

    def check(module):
        for site in module.calls():
            if site.name == "torch.load" and site.argument("weights_only").is_absent:
                edit = SetArgument(call=site.node, name="weights_only", value="True")
                fix = Fix(what="set weights_only=True", edits=(edit,))
                yield Hit(rule="SRC301", node=site.node, message="Bare.", fix=fix)

    checks = (Check(rule="SRC301", words=(), check=check),)
    monkeypatch.setattr("everybit.source.linting.all_checks", lambda: checks)


def test_fixes_are_shown_and_made(tmp_path, fixing):
    path = tmp_path / "a.py"
    before = b"import torch\r\ntorch.load(p)  # \xc3\xa4\r\n"
    path.write_bytes(before)
    path.chmod(0o755)
    verdict = everybit.lint(tmp_path, diff=True)
    assert "+torch.load(p, weights_only=True)" in verdict.stats["diff"]
    assert path.read_bytes() == before
    assert len(verdict.findings) == 1
    verdict = everybit.lint(tmp_path, fix=True)
    assert verdict.ok
    assert verdict.stats["fixed_files"] == 1
    assert path.read_bytes() == before.replace(b"(p)", b"(p, weights_only=True)")
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_notebook_keeps_its_form(tmp_path, fixing):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["ä"]},
        {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [],
         "source": ["%matplotlib inline\n", "import torch\n", "x = !ls\n", "if x:\n",
                    "    %time y\n", "torch.load(p)"]},
    ]  # fmt: skip
    path = tmp_path / "a.ipynb"
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    assert everybit.lint(tmp_path, fix=True).ok
    assert path.read_text(encoding="utf-8") == text.replace("load(p)", "load(p, weights_only=True)")


def test_a_notebook_of_another_form_is_not_touched(tmp_path, fixing):
    path = tmp_path / "a.ipynb"
    text = '{"cells" :[{"cell_type":"code", "source":"import torch\\ntorch.load(p)"}]}'
    path.write_text(text)
    verdict = everybit.lint(tmp_path, fix=True)
    assert path.read_text() == text
    assert "keep its form" in verdict.coverage.skipped[0].why
    assert len(verdict.findings) == 1


def test_a_fix_that_does_not_help_is_not_made(tmp_path, monkeypatch):
    def check(module):
        for node in module.call_nodes:
            edit = SetArgument(call=node, name="x", value="1")
            fix = Fix(what="set x", edits=(edit,))
            yield Hit(rule="SRC301", node=node, message="Still.", fix=fix)

    checks = (Check(rule="SRC301", words=(), check=check),)
    monkeypatch.setattr("everybit.source.linting.all_checks", lambda: checks)
    (tmp_path / "a.py").write_text("f()\n")
    verdict = everybit.lint(tmp_path, fix=True)
    assert (tmp_path / "a.py").read_text() == "f()\n"
    assert "same findings" in verdict.coverage.skipped[0].why


def test_a_file_that_cannot_be_written_is_left_whole(tmp_path, fixing, monkeypatch):
    (tmp_path / "a.py").write_text("import torch\ntorch.load(p)\n")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(everybit.UsageError, match="no space left"):
        everybit.lint(tmp_path, fix=True)
    assert (tmp_path / "a.py").read_text() == "import torch\ntorch.load(p)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
