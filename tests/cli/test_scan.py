from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import pytest


class Runs:
    def __reduce__(self):
        return os.getcwd, ()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(Runs()))
    (tmp_path / "good.pkl").write_bytes(pickle.dumps({"lr": 0.1}))
    (tmp_path / "unknown.pkl").write_bytes(b"\x80\x02cnobody\nKnows\n)R.")
    return tmp_path


def test_exit_codes(files, run):
    assert run("scan", "good.pkl")[0] == 0
    assert run("scan", "bad.pkl")[0] == 1
    assert run("scan", "unknown.pkl")[0] == 1  # a gate stops at what is not known
    assert run("scan", "unknown.pkl", "--fail-on", "error")[0] == 0
    assert run("scan", "bad.pkl", "--exit-zero")[0] == 0
    code, _, err = run("scan", "missing.pkl")
    assert (code, "no such file" in err) == (2, True)
    assert run("scan", "")[0] == 2
    assert run("scan")[0] == 2


def test_a_folder_means_all_its_files(files, run):
    code, text, _ = run("scan", str(files), "--json")
    shown = json.loads(text)
    assert (code, shown["command"], shown["stats"]["files"]) == (1, "scan", 3)
    assert [(f["rule"], f["where"]["path"]) for f in shown["findings"]][:2] == [
        ("PKL201", "bad.pkl"),
        ("PKL202", "unknown.pkl"),
    ]
    assert {c["what"] for c in shown["coverage"]["checked"]} >= {"files", "pickles"}


def test_what_cannot_be_read_is_said(files, run):
    (files / "sub").mkdir()
    (files / "sub" / "gone.pkl").symlink_to(files / "nowhere")
    (files / "sub" / "here.pkl").symlink_to(files / "bad.pkl")
    (files / "sub" / "out").symlink_to("/")
    code, text, _ = run("scan", "sub", "--json")
    shown = json.loads(text)
    assert (code, [f["where"]["path"] for f in shown["findings"]]) == (1, ["here.pkl"])
    assert {s["what"] for s in shown["coverage"]["skipped"]} == {"gone.pkl", "out"}
    (files / "empty").mkdir()
    assert run("scan", "empty")[0] == 3


def test_an_empty_pipe_is_refused(files, run):
    os.mkfifo(files / "pipe")
    code, _, err = run("scan", "pipe")
    assert (code, "not a regular file" in err) == (2, True)


def test_what_it_imports(files):
    # Nothing that the pickle names, and none of the heavy libraries.
    code = (
        "import sys, everybit; everybit.scan('unknown.pkl', 'bad.pkl');"
        "print([m for m in ('torch', 'numpy', 'rich', 'nobody') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=files
    )
    assert told.stdout.strip() == "[]"
