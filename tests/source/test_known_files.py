"""Baselines that are damaged, foreign, moved or of other code; comments that hide findings."""

from __future__ import annotations

import json
import os

import pytest

import everybit

CALL = "torch.load(p, weights_only=False)"
BAD = f"x = {CALL}"
OURS = "# everybit: ignore[SRC301] our own"
SCHEMA = "everybit.baseline/1"


def rules(verdict):
    return [(f.rule, f.where.line) for f in verdict.findings]


def entry(**more):
    return {"rule": "SRC301", "path": "a.py", "around": "", "source": BAD, **more}


@pytest.mark.parametrize(
    "count", [0, -1, 1.5, "2", None, True, [], float("inf"), float("nan"), "9" * 9000]
)
def test_a_count_that_is_none_is_refused(tmp_path, count):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"schema": SCHEMA, "findings": [entry(count=count)]}))
    with pytest.raises(everybit.UsageError, match="no baseline of the form"):
        everybit.lint(tmp_path, baseline=known)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00", b"{", b"<<<<<<< ours\n", b'{"schema": "everybit.baseline/1"', b"null",
        b'{"schema": "everybit.baseline/1", "findings": {"rule": 1}}',
        b'{"schema": "everybit.baseline/1", "findings": [{"rule": 1, "path": 2, "source": 3}]}',
        b'{"schema": ["everybit.baseline/1"], "findings": []}',
    ],
)  # fmt: skip
def test_a_damaged_baseline_is_one_clear_error(tmp_path, data):
    known = tmp_path / "known.json"
    known.write_bytes(data)
    with pytest.raises(everybit.UsageError, match="no baseline of the form"):
        everybit.lint(tmp_path, baseline=known)


def test_a_baseline_of_another_version_says_which(tmp_path):
    known = tmp_path / "known.json"
    known.write_text('{"schema": "everybit.baseline/2", "findings": []}')
    with pytest.raises(everybit.UsageError, match=r"it says 'everybit\.baseline/2'"):
        everybit.lint(tmp_path, baseline=known)
    everybit.lint(tmp_path, baseline=known, update_baseline=True)
    assert json.loads(known.read_text())["schema"] == SCHEMA


def test_a_baseline_takes_no_other_file_s_place(tmp_path):
    code = f"import torch\n{BAD}\n"
    other = tmp_path / "a.py"
    other.write_text(code)
    with pytest.raises(everybit.UsageError, match="is no baseline, and would be lost"):
        everybit.lint(tmp_path, baseline=other, update_baseline=True)
    assert other.read_text() == code
    damaged = tmp_path / "known.json"
    damaged.write_text('<<<<<<< ours\n{"schema": "everybit.baseline/1", "find')
    assert everybit.lint(tmp_path, baseline=damaged, update_baseline=True).ok
    (tmp_path / "empty").write_text("\n")
    assert everybit.lint(tmp_path, baseline=tmp_path / "empty", update_baseline=True).ok


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_baseline_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(everybit.UsageError, match="not a regular file"):
        everybit.lint(tmp_path, baseline=tmp_path / "pipe")


def test_equal_entries_add_up_and_deleted_files_are_gone(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"schema": SCHEMA, "findings": [entry(), entry(count=2)]}))
    (tmp_path / "a.py").write_text(f"import torch\n{BAD}\n{BAD}\n{BAD}\n{BAD}\n")
    verdict = everybit.lint(tmp_path, baseline=known)
    assert rules(verdict) == [("SRC301", 5)]
    (tmp_path / "a.py").unlink()
    verdict = everybit.lint(tmp_path, baseline=known)
    assert (verdict.ok, verdict.stats["known_and_gone"]) == (True, 3)


HIDDEN = {
    "behind a string of such words": f"{BAD}; s = '# everybit: ignore[SRC302] no'  "
    "# everybit: ignore[SRC301] our own\n",
    "in a file of lone CR": f"{BAD}  # everybit: ignore[SRC301] our own\n".replace("\n", "\r"),
    "after lines of CR": f"a = 1\rb = 2\r{BAD}  # everybit: ignore[SRC301] our own\r",
    "in a file of CRLF": f"# everybit: ignore[SRC301] our own\r\n{BAD}\r\n",
    "rules apart by blanks": f"{BAD}  # everybit: ignore[SRC302  SRC301] our own\n",
    "behind a decorator of several lines": f"@g(\n    {CALL}\n)  {OURS}\ndef f():\n    pass\n",
    "above decorators": f"{OURS}\n@g\n@h\ndef f(p={CALL}):\n    pass\n",
    "above the head of a with": f"{OURS}\nwith (\n    open(p),\n    {CALL},\n):\n    pass\n",
    "behind the head of an if": f"if (\n    a\n    and {CALL}\n):  {OURS}\n    pass\n",
    "above an assert": f"{OURS}\nassert f(\n    {CALL},\n)\n",
    "behind its own line": f"x = {{\n    'a': 1,\n    'b': {CALL},  {OURS}\n}}\n",
    "lower case": f"{BAD}  # Everybit: Ignore[src301] our own\n",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_comment_hides(tmp_path, text):
    end = "\r" if "\r" in text and "\n" not in text else "\n"
    (tmp_path / "a.py").write_bytes(f"import torch{end}{text}".encode())
    verdict = everybit.lint(tmp_path)
    assert (rules(verdict), verdict.stats["suppressed"]) == ([], 1)


TOLD = {
    "in a text of several lines": (
        f's = """\n# everybit: ignore[SRC301] our own\n"""\n{BAD}\n', [("SRC301", 5)]
    ),
    "in a string before another comment": (
        f"{BAD}; s = '# everybit: ignore[SRC301] our own'  # why\n", [("SRC301", 2)]
    ),
    "on another statement of the lines": (
        f"x = [\n    1,  # everybit: ignore[SRC301] our own\n]\n{BAD}\n", [("SRC301", 5)]
    ),
    "in a body, where the head is meant": (
        f"for x in {CALL}:\n    {OURS}\n    y = 1\n", [("SRC301", 2)]
    ),
    "at a head, where the body is meant": (
        f"for x in y:  {OURS}\n    {BAD}\n", [("SRC301", 3)]
    ),
    "above another decorator's function": (
        f"@g({CALL})\n{OURS}\ndef f():\n    {BAD}\n", [("SRC301", 5)]
    ),
    "a rule that is none": (
        f"{BAD}  # everybit: ignore[SRC999] our own\n", [("SRC301", 2), ("SRC317", 2)]
    ),
    "a rule of another verb": (
        f"{BAD}  # everybit: ignore[PKL201] our own\n", [("SRC301", 2), ("SRC317", 2)]
    ),
    "one that is none beside one that is": (
        f"{BAD}  # everybit: ignore[SRC301, E501] our own\n", [("SRC317", 2)]
    ),
    "no bracket end": (
        f"{BAD}  # everybit: ignore[SRC301 our own\n", [("SRC301", 2), ("SRC317", 2)]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOLD.values(), ids=TOLD.keys())
def test_a_comment_does_not_hide_or_is_told(tmp_path, text, expected):
    (tmp_path / "a.py").write_text(f"import torch\n{text}")
    assert rules(everybit.lint(tmp_path)) == expected


def test_what_a_comment_names_in_vain_is_told(tmp_path):
    (tmp_path / "a.py").write_text("# everybit: ignore[SCR301] our own\nx = 1\n")
    (finding,) = everybit.lint(tmp_path).findings
    assert "names SCR301, which is no rule of lint's" in finding.message
