"""The run folder of a run that names none."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from everybit.ledger.default_folder import default_folder


@pytest.fixture(autouse=True)
def _in_one_second(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_runs_that_start_in_the_same_second_do_not_share_a_folder():
    with ThreadPoolExecutor(8) as several:
        names = list(several.map(lambda _: default_folder("train.py"), range(8)))
    assert len(set(names)) == 8
    shortest = min(names, key=len)
    assert {name.removeprefix(shortest) for name in names} == {"", *(f"-{n}" for n in range(2, 9))}


def test_the_ranks_of_one_job_share_theirs(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert default_folder("train.py") == default_folder("train.py")


def test_where_no_folder_can_be_whoever_writes_there_says_so(tmp_path):
    (tmp_path / "everybit-runs").write_text("a file")
    assert default_folder("train.py").startswith("everybit-runs/")
