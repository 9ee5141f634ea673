from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import everybit
from everybit.core.errors import PathError, UsageError
from everybit.ledger import Answer, EndReason, Liveness, Pause, RunWriter, open_run
from everybit.ledger.pause import answer_pause, begin_pause, end_pause, list_pauses, read_answer

if TYPE_CHECKING:
    from pathlib import Path


def pause_of(rank: int = 0, **more: object) -> Pause:
    values = {
        "rank": rank, "step": 4, "rule": "MEM601", "message": "a bit changed", "since_s": 1.5,
        "until_s": 9.5, "attempt": 0, "incident": "incidents/4-MEM601-r0",
    }  # fmt: skip
    return Pause(**{**values, **more})


@pytest.fixture
def writer(tmp_path):
    writer = RunWriter.open(tmp_path)
    yield writer
    writer.close()


def test_a_pause_is_seen_answered_and_over(tmp_path, writer):
    pauses = [pause_of(0), pause_of(3, rule="", incident="")]
    for pause in pauses:
        begin_pause(tmp_path, pause)
    assert list_pauses(tmp_path) == tuple(pauses)
    assert open_run(tmp_path).pauses == tuple(pauses)
    assert [pause.liveness for pause in pauses] == [Liveness.RUNNING] * 2
    assert [read_answer(tmp_path, pause) for pause in pauses] == [None, None]
    assert everybit.release(tmp_path) == tuple(pauses)
    assert [read_answer(tmp_path, pause) for pause in pauses] == [Answer.GO] * 2
    everybit.release(str(tmp_path), stop=True)
    assert read_answer(tmp_path, pauses[0]) is Answer.STOP
    for path in (tmp_path / "paused").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    end_pause(tmp_path, pauses[0])
    assert list_pauses(tmp_path) == (pauses[1],)
    end_pause(tmp_path, pauses[1])
    assert list((tmp_path / "paused").iterdir()) == []
    assert open_run(tmp_path).pauses == ()


def test_an_answer_counts_for_one_pause_only(tmp_path):
    first, second = pause_of(), pause_of()
    begin_pause(tmp_path, first)
    answer_pause(tmp_path, first, Answer.GO)
    begin_pause(tmp_path, second)  # the first one's process was killed
    assert read_answer(tmp_path, second) is None
    answer_pause(tmp_path, first, Answer.GO)  # by somebody who saw the first
    assert read_answer(tmp_path, second) is None
    end_pause(tmp_path, first)
    assert list_pauses(tmp_path) == (second,)


def test_a_pause_of_a_process_that_is_gone_or_has_ended_is_none(tmp_path, writer):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    state = pause_of()
    begin_pause(tmp_path, replace(state, process=replace(state.process, pid=gone.pid)))
    assert open_run(tmp_path).pauses == ()
    with pytest.raises(UsageError, match="nothing is paused here: it is running"):
        everybit.release(tmp_path)
    begin_pause(tmp_path, state)
    assert open_run(tmp_path).pauses == (state,)
    writer.end(EndReason.CLEAN)
    assert open_run(tmp_path).pauses == ()
    with pytest.raises(UsageError, match="nothing is paused here: it is not running"):
        everybit.release(tmp_path)


def test_on_another_machine_it_is_released_unseen(tmp_path, writer):
    state = pause_of()
    far = replace(state, process=replace(state.process, host="elsewhere"))
    begin_pause(tmp_path, far)
    assert far.liveness is Liveness.UNSEEN
    assert everybit.release(tmp_path) == (far,)
    assert read_answer(tmp_path, far) is Answer.GO


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "everybit.pause/2"}, {"rank": "0"}, {"rank": -1}, {"step": True},
        {"token": "../../x"}, {"token": None}, {"process": None}, {"process": {"pid": "x"}},
        {"since_s": "x"}, {"message": 3}, {"rank": 7},
    ],
)  # fmt: skip
def test_a_state_that_is_none_of_ours_is_passed_over(tmp_path, change):
    begin_pause(tmp_path, pause_of())
    path = tmp_path / "paused" / "rank-00000.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert list_pauses(tmp_path) == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"3", b" " * 300_000])
def test_a_damaged_state_or_answer_is_passed_over(tmp_path, content):
    pause = pause_of()
    begin_pause(tmp_path, pause)
    (tmp_path / "paused" / "rank-00000.answer.json").write_bytes(content)
    assert read_answer(tmp_path, pause) is None
    (tmp_path / "paused" / "rank-00000.json").write_bytes(content)
    assert list_pauses(tmp_path) == ()
    (tmp_path / "paused" / "rank-00000.json").unlink()
    os.mkfifo(tmp_path / "paused" / "rank-00000.json")
    assert list_pauses(tmp_path) == ()


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "paused").write_text("a file")
    with pytest.raises(PathError):
        begin_pause(tmp_path, pause_of())
    assert list_pauses(tmp_path) == ()


_WAITS = """
import sys, time
from pathlib import Path
from everybit.ledger import RunWriter, Pause
from everybit.ledger.pause import begin_pause
writer = RunWriter.open(sys.argv[1])
begin_pause(Path(sys.argv[1]), Pause(rank=0, step=4, rule="MEM601", message="", incident="",
    since_s=0, until_s=1, attempt=writer.attempt))
print("paused", flush=True)
time.sleep(60)
"""


def test_killed_while_paused_and_paused_again(tmp_path: Path):
    def start() -> subprocess.Popen[str]:
        job = subprocess.Popen(
            [sys.executable, "-c", _WAITS, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert job.stdout.readline() == "paused\n"
        return job

    job = start()
    assert [p.process.pid for p in open_run(tmp_path).pauses] == [job.pid]
    everybit.release(tmp_path)
    job.kill()
    job.wait()
    assert open_run(tmp_path).pauses == ()
    with pytest.raises(
        UsageError, match=rf"paused at step 4, and the process is gone \(pid {job.pid}"
    ):
        everybit.release(tmp_path)
    second = start()
    (pause,) = open_run(tmp_path).pauses
    assert (pause.process.pid, pause.attempt) == (second.pid, 1)
    assert read_answer(tmp_path, pause) is None
    second.send_signal(signal.SIGTERM)
    second.wait()
    deadline = time.monotonic() + 5
    while open_run(tmp_path).pauses and time.monotonic() < deadline:
        time.sleep(0.01)
    assert open_run(tmp_path).pauses == ()
