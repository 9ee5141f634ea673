"""Threads that a script leaves behind are waited for as `python` would, and no longer."""

from __future__ import annotations

import textwrap
import threading
from typing import TYPE_CHECKING

import everybit
from everybit.core.config import Config

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

POOL = """
    import concurrent.futures, time
    pool = concurrent.futures.ThreadPoolExecutor(2)

    def work(name):
        time.sleep(0.2)
        open(name, "w").close()

    pool.map(work, ["a", "b", "c"])
"""
THREAD = """
    import threading, time

    def work():
        time.sleep(0.3)
        open("d", "w").close()

    threading.Thread(target=work).start()
"""


def run(place: Path, text: str) -> None:
    (place / "job.py").write_text(textwrap.dedent(text))
    everybit.run(str(place / "job.py"), config=Config(run=str(place / "run")))


def test_an_open_pool_finishes_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(tmp_path, POOL)
    assert all((tmp_path / name).exists() for name in "abc")


def test_a_thread_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(tmp_path, THREAD)
    assert (tmp_path / "d").exists()


def test_threads_of_the_caller_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    end = threading.Event()
    mine = threading.Thread(target=end.wait)
    mine.start()
    try:
        run(tmp_path, "print()")
        assert mine.is_alive()
    finally:
        end.set()
        mine.join()
