"""Commit, uncommitted and untracked work, of a repository made on the spot."""

from __future__ import annotations

import subprocess

import pytest

from everybit.host import repository
from everybit.host.repository import read_repository


@pytest.fixture
def repo(tmp_path):
    def git(*args):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "-b", "trunk")
    (tmp_path / "train.py").write_text("lr = 0.1\n")
    (tmp_path / ".gitignore").write_text("runs/\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return tmp_path


def test_a_clean_tree(repo):
    facts = read_repository(repo)
    assert len(facts["commit"]) == 40
    assert facts["branch"] == "trunk"
    assert facts["dirty"] is False
    assert (facts["diff_digest"], facts["untracked_digest"]) == ("", "")
    assert "diff" not in facts


def test_uncommitted_work_is_kept_and_has_a_digest(repo):
    (repo / "train.py").write_text("lr = 0.2\n")
    first = read_repository(repo)
    assert first["dirty"]
    assert "+lr = 0.2" in first["diff"]
    assert "diff" not in read_repository(repo, keep_diff=False)
    (repo / "train.py").write_text("lr = 0.3\n")
    assert read_repository(repo)["diff_digest"] != first["diff_digest"]


def test_a_long_diff_is_cut_and_says_so(repo, monkeypatch):
    monkeypatch.setattr(repository, "DIFF_LIMIT_BYTES", 100)
    (repo / "train.py").write_text("x = 1\n" * 500)
    facts = read_repository(repo)
    assert len(facts["diff"]) < 200
    assert "more bytes were not kept" in facts["diff"]


def test_untracked_code_counts_and_ignored_files_do_not(repo):
    (repo / "runs").mkdir()
    (repo / "runs" / "log").write_text("x")
    assert read_repository(repo)["num_untracked"] == 0
    (repo / "new.py").write_text("a = 1\n")
    first = read_repository(repo)
    assert first["num_untracked"] == 1
    (repo / "new.py").write_text("a = 2\n")
    assert read_repository(repo)["untracked_digest"] != first["untracked_digest"]


def test_no_repository_is_absent(tmp_path):
    assert read_repository(tmp_path) == {"absent": "not in a git repository"}


def test_a_repository_without_a_commit(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert read_repository(tmp_path)["commit"] == "no commit yet"


def test_no_git_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_repository(tmp_path) == {"unknown": "git is not installed"}


def test_the_repositorys_own_programs_are_not_run(repo):
    marker = repo.parent / "ran"
    for key in ("core.fsmonitor", "diff.external", "core.pager"):
        subprocess.run(["git", "config", key, f"touch {marker}; false"], cwd=repo, check=True)
    (repo / "train.py").write_text("lr = 0.2\n")
    assert read_repository(repo)["dirty"]
    assert not marker.exists()
