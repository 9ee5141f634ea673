"""Fixes of files that are odd, closed, shared or changed under our hands."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys

import pytest

import everybit
from everybit.source.fixing import apply_fixes
from everybit.source.hit import Fix, InsertBefore, ReplaceExpression, SetArgument
from everybit.source.same_code import differs_by

pytest.importorskip("libcst")

CODE = (
    "import torch\n\n\ndef read(p):\n    # what was saved\n"
    "    model.load_state_dict(torch.load(p, weights_only=False))  # ä\n    return 1\n"
)
FIXED = CODE.replace("weights_only=False", "weights_only=True")

SHAPES = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "lone CR": lambda text: text.replace("\n", "\r").encode(),
    "CR and LF mixed": lambda text: text.replace("\n", "\r\n", 3).encode(),
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "Latin-1": lambda text: f"# -*- coding: latin-1 -*-\n{text}".encode("latin-1"),
    "a form feed": lambda text: text.replace("\n\n\n", "\n\f\n\n").encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "blanks at its ends": lambda text: (text + "   \n\t\n\n").encode(),
    "a line that goes on": lambda text: text.replace(
        "dict(torch", "dict(\\\n        torch"
    ).encode(),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_all_but_the_fix_stays_as_it_is(tmp_path, shape):
    path = tmp_path / "a.py"
    path.write_bytes(shape(CODE))
    assert everybit.lint(tmp_path, fix=True).ok
    assert path.read_bytes() == shape(FIXED)
    assert not everybit.lint(tmp_path, fix=True).stats.get("fixed_files")
    assert path.read_bytes() == shape(FIXED)


def test_the_diff_of_a_file_with_a_form_feed_can_be_applied(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(SHAPES["a form feed"](CODE))
    told = everybit.lint(tmp_path, diff=True).stats["diff"]
    assert "No newline" not in told
    assert [line for line in told.split("\n") if line.startswith("+ ")] == [
        "+    model.load_state_dict(torch.load(p, weights_only=True))  # ä"
    ]


def refused(verdict):
    return [item.why for item in verdict.coverage.skipped if item.what.startswith("fixing")]


def test_a_file_that_changed_meanwhile_is_left(tmp_path, monkeypatch):
    from everybit.source import mending

    path = tmp_path / "a.py"
    path.write_text(CODE)
    doubt = mending._doubt

    def slow(*args):
        path.write_text(CODE + "# somebody is typing\n")
        return doubt(*args)

    monkeypatch.setattr(mending, "_doubt", slow)
    verdict = everybit.lint(tmp_path, fix=True)
    assert refused(verdict) == ["it has changed meanwhile"]
    assert path.read_text() == CODE + "# somebody is typing\n"
    assert verdict.stats["fixed_files"] == 0


def test_a_read_only_file_is_left(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(CODE)
    path.chmod(0o444)
    assert refused(everybit.lint(tmp_path, fix=True)) == ["it is read-only"]
    assert path.read_text() == CODE


def test_a_link_out_of_what_was_named_is_left_and_one_that_was_named_is_followed(tmp_path):
    job, other = tmp_path / "job", tmp_path / "other.py"
    job.mkdir()
    other.write_text(CODE)
    (job / "a.py").symlink_to(other)
    assert "outside of what was named" in refused(everybit.lint(job, fix=True))[0]
    assert other.read_text() == CODE
    assert everybit.lint(job / "a.py", fix=True).ok
    assert other.read_text() == FIXED
    assert (job / "a.py").is_symlink()


def test_a_full_disk_leaves_each_file_whole_and_says_what_was_done(tmp_path, monkeypatch):
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(CODE)
    sync, calls = os.fsync, []

    def fsync(handle):
        calls.append(handle)
        if len(calls) > 2:  # a file and its folder
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(everybit.UsageError, match=r"no space left.*1 other file fixed before it"):
        everybit.lint(tmp_path, fix=True)
    texts = [(tmp_path / name).read_text() for name in ("a.py", "b.py", "c.py")]
    assert texts == [FIXED, CODE, CODE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "b.py", "c.py"]


def test_a_killed_process_leaves_each_file_whole(tmp_path):
    (tmp_path / "a.py").write_text(CODE)
    code = (
        "import os, signal, sys\nfrom everybit.api.lint import lint\n"
        f"os.fsync = lambda handle: os.kill(os.getpid(), {signal.SIGKILL:d})\n"
        "lint(sys.argv[1], fix=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "a.py").read_text() == CODE
    assert everybit.lint(tmp_path, fix=True).stats["fixed_files"] == 1  # what is left is no code


def edited(text, *edits):
    return apply_fixes(text, [Fix(what="x", edits=edits)])


def test_edits_inside_each_other_are_made_together_or_not_at_all():
    text = "f(g(h(1)))\n"
    outer = ast.parse(text).body[0].value
    inner = outer.args[0]
    both = [SetArgument(call=call, name="x", value="1") for call in (outer, inner)]
    assert edited(text, *both) == "f(g(h(1), x=1), x=1)\n"
    assert edited(text, *both, *both) == "f(g(h(1), x=1), x=1)\n"
    lost = [ReplaceExpression(node=outer, text="f(0)"), both[1]]
    assert edited(text, *lost) == "f(0)\n"  # linting it again tells whether that was meant


def test_a_statement_is_not_put_before_others_on_its_line():
    text = "loss.backward(); clip(p)\n"
    first, second = ast.parse(text).body
    new = InsertBefore(statement=first, text="s.unscale_(o)")
    assert edited(text, new) == "s.unscale_(o)\nloss.backward(); clip(p)\n"
    assert edited(text, InsertBefore(statement=second, text="s.unscale_(o)")) is None


def test_a_comment_is_never_lost():
    text = "f(  # why\n    g(1),\n)\n"
    call = ast.parse(text).body[0].value
    assert edited(text, ReplaceExpression(node=call, text="h()")) is None


@pytest.mark.parametrize(
    "after",
    ["f(1, x=1)\ng(3)\n", "f(1, x=1)\n", "f(1, x=2)\ng(2)\n", "f(1, x=1)\ng(2)\nh()\n", "f(\n",
     "f(1, x=1)\ng(2)  # new\n", "import os\nf(1, x=1)\ng(2)\n"],
)  # fmt: skip
def test_what_differs_by_more_is_not_the_fix(after):
    before = "f(1)\ng(2)\n"
    edit = SetArgument(call=ast.parse(before).body[0].value, name="x", value="1")
    assert differs_by(before, "f(1, x=1)\ng(2)\n", [edit], [])
    assert differs_by(before, "import os\nf(1, x=1)\ng(2)\n", [edit], ["os"])
    assert not differs_by(before, after, [edit], [])


def cell(source, **more):
    return {"cell_type": "code", "metadata": {}, "outputs": [], "source": source, **more}


CELL = "import torch\nmodel.load_state_dict(torch.load(p, weights_only=False))"
NOTEBOOKS = {
    "version 3": {"worksheets": [{"cells": [{"cell_type": "code", "input": CELL}]}]},
    "odd cells": {"cells": [1, None, {"cell_type": "code"}, cell(CELL)]},
    "a line separator": {"cells": [cell(f"s = '\u2028'\n{CELL}")]},
    "a form feed": {"cells": [cell(["x = 1\n", "\f\n", *CELL.splitlines(keepends=True)])]},
    "Jupyter's": {"cells": [cell(["x = 1\n", "\f", "\n", *CELL.splitlines(keepends=True)])]},
    "blanks behind": {"cells": [cell(f"{CELL}\n   ")]},
}


@pytest.mark.parametrize("document", NOTEBOOKS.values(), ids=NOTEBOOKS.keys())
def test_an_odd_notebook_keeps_its_form(tmp_path, document):
    path = tmp_path / "a.ipynb"
    text = json.dumps(document, indent=1) + "\n"
    path.write_text(text)
    assert everybit.lint(tmp_path, fix=True).stats["fixed_files"] == 1
    assert path.read_text() == text.replace("weights_only=False", "weights_only=True")


@pytest.mark.parametrize(
    "source", [["import torch\n", 5, CELL.split("\n")[1]], CELL.replace("\n", "\r\n")]
)
def test_a_notebook_that_would_lose_something_is_left(tmp_path, source):
    path = tmp_path / "a.ipynb"
    text = json.dumps({"cells": [cell(source)]}, indent=1)
    path.write_text(text)
    assert "keep its form" in refused(everybit.lint(tmp_path, fix=True))[0]
    assert path.read_text() == text
