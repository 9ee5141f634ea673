"""Which files are read, and that what cannot be read is said."""

from __future__ import annotations

import json
import os

from tests.source.reading_code import written

import everybit

LOAD = "import torch\ntorch.load('x', weights_only=False)\n"


def skipped(verdict):
    return {each.what: each.promised for each in verdict.coverage.skipped}


def test_links_in_a_circle_and_to_nothing_are_said_and_the_rest_is_read(tmp_path):
    written(tmp_path, {"a.py": LOAD, "sub/b.py": "x = 1\n"})
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "dead.py").symlink_to("gone.py")
    (tmp_path / "sub" / "up").symlink_to("..")
    verdict = everybit.lint(tmp_path)
    assert [finding.where.path for finding in verdict.findings] == ["a.py"]
    assert skipped(verdict) == {"self.py": True, "dead.py": True}


def test_a_link_to_a_folder_elsewhere_is_not_followed_and_said(tmp_path):
    written(tmp_path, {"job/a.py": "x = 1\n", "other/b.py": LOAD})
    (tmp_path / "job" / "lib").symlink_to("../other")
    verdict = everybit.lint(tmp_path / "job")
    assert not verdict.findings
    assert skipped(verdict) == {"lib": False}  # a check that nobody promised
    assert verdict.ok


def test_a_pipe_under_the_name_of_code_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.py")
    verdict = everybit.lint(tmp_path)
    assert skipped(verdict) == {"a.py": True}


def test_a_folder_that_the_system_refuses_is_said(tmp_path, monkeypatch):
    written(tmp_path, {"a.py": "x = 1\n"})
    walk = os.walk

    def refusing(top, onerror=None):
        onerror(PermissionError(13, "Permission denied", f"{top}/shut"))
        return walk(top)

    monkeypatch.setattr("everybit.source.walking.os.walk", refusing)
    assert skipped(everybit.lint(tmp_path)) == {"the folder shut": True}


def test_what_costs_grows_with_the_line_and_not_with_its_square(tmp_path):
    # One line of 1 MB, as a bundler writes it: each finding looked at the whole of it.
    calls = ",".join("torch.load(p, weights_only=False)" for _ in range(3000))
    written(tmp_path, {"a.py": f"import torch\nx=[{calls}]\n"})
    verdict = everybit.lint(tmp_path)
    assert len(verdict.findings) == 3000
    assert verdict.findings[-1].where.column == 4 + 34 * 2999


def test_a_dictionary_that_is_set_from_itself_ends(tmp_path):
    lines = [f"        self.o['k{n}'] = self.o.get('k{n - 1}')" for n in range(1, 100)]
    text = "import torch\nclass A:\n    def m(self):\n        self.o = {}\n" + "\n".join(lines)
    text += "\n        self.o['weights_only'] = False\n        torch.load('p', **self.o)\n"
    written(tmp_path, {"a.py": text})
    (finding,) = everybit.lint(tmp_path).findings
    assert finding.rule == "SRC301"


def test_a_magic_that_runs_a_statement_keeps_its_columns(tmp_path):
    cell = {
        "cell_type": "code",
        "source": "import torch\n%time x = torch.load('a', weights_only=0)",
    }
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    (finding,) = everybit.lint(tmp_path).findings
    assert (finding.where.line, finding.where.column) == (2, 11)
