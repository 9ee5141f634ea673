"""`everybit lint`: exit codes, what goes where, one line for what cannot be done."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from everybit.cli import main

BAD = "import torch\nmodel.load_state_dict(torch.load('p', weights_only=False))\n"


@pytest.fixture
def job(tmp_path, monkeypatch):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "a.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job"


def test_exit_codes(job, capsys):
    assert main(["lint", "job"]) == 1
    assert (
        "2 | model.load_state_dict(torch.load('p', weights_only=False))" in capsys.readouterr().out
    )
    assert main(["lint", "job", "--fail-on", "error"]) == 0
    assert main(["lint", "job", "--exit-zero"]) == 0
    (job / "a.py").write_text("x = (\n")
    assert main(["lint", "job"]) == 3
    (job / "a.py").write_text("x = 1\n")
    assert main(["lint", "job"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: no such file"),
        (["job", "--fix", "--diff"], "one of fix and diff"),
        (["job", "--write-baseline"], "--baseline"),
        (["job", "--baseline", "none.json"], "write it first"),
        (["job", "--baseline", "no/folder.json", "--write-baseline"], "folder"),
        (["job", "--baseline", ""], "empty"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_line(job, capsys, words, said):
    assert main(["lint", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert not told.out


def test_json_is_one_object_with_the_diff_inside(job, capsys):
    assert main(["lint", "job", "--json", "--diff"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["findings"][0]["where"] == {"path": "a.py", "line": 2, "column": 23}
    assert "+model.load_state_dict(torch.load('p', weights_only=True))" in verdict["stats"]["diff"]


def test_a_text_diff_can_be_applied(job, capsys):
    main(["lint", "job", "--diff"])
    text = capsys.readouterr().out
    assert text.startswith("--- a/a.py\n+++ b/a.py\n@@ ")
    assert (job / "a.py").read_text() == BAD


def test_fix_writes_and_the_rest_is_told(job, capsys):
    assert main(["lint", "job", "--fix"]) == 0
    assert (job / "a.py").read_text() == BAD.replace("False", "True")
    assert "1 fixed file" in capsys.readouterr().out


def test_without_libcst_a_fix_is_refused_in_one_line(job, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert main(["lint", "job", "--fix"]) == 2
    assert "pip install 'everybit[lint]'" in capsys.readouterr().err
    assert main(["lint", "job"]) == 1


def test_nothing_that_is_linted_runs(tmp_path):
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').close()\nimport torch\ntorch.load('x')\n"
    for name in ("a.py", "conftest.py", "sitecustomize.py", "torch.py", "pickle.py"):
        (tmp_path / name).write_text(code)
    (tmp_path / "a.ipynb").write_text(
        json.dumps({"cells": [{"cell_type": "code", "source": code}]})
    )
    words = [sys.executable, "-P", "-m", "everybit", "lint", "."]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    assert not mark.exists()


def test_lint_loads_neither_torch_nor_libcst(job):
    code = (
        "import sys; from everybit.cli import main; main(['lint', 'job']);"
        "print('LOADED', *({'torch', 'numpy', 'libcst'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.rpartition("LOADED")[2].split() == []
