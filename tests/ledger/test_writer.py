from __future__ import annotations

import os
import signal
import threading
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench.ledger_campaign import make_step

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import Observation, TensorTable
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger import End, EndReason, RunWriter, open_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    writer = RunWriter.open(tmp_path / "run", command=["train.py"], clock=lambda: 12.5)
    yield writer
    writer.close()


def test_what_was_written_is_read_back_equal(tmp_path: Path) -> None:
    environment = {"python": {"version": "3.11.4"}, "packages": {"torch": "2.13.0"}}
    writer = RunWriter.open(
        tmp_path,
        rank=2,
        world_size=1,
        command=["train.py", "--lr=1"],
        environment=environment,
        config={"every": 1},
        clock=lambda: 12.5,
    )
    init = (TensorTable(link=Link.INIT, names=("a", "b"), digests=(1, 2)),)
    load = (TensorTable(link=Link.LOAD, names=("a", "b"), digests=(3, 4)),)
    steps = [make_step(k) for k in range(20)]
    where = Location(step=3, parameter="a", elements=(1, 5), rank=2, link=Link.STATE)
    finding = rule("MEM601").finding("changed", where=where, evidence={"bits": [3]})
    observation = Observation(kind="heal", step=4, data={"words": [1, 2], "why": "ü"})
    coverage = Coverage(
        checked=(Checked(what="weights", count=3),),
        skipped=(Skipped(what="replay", why="off", promised=False),),
    )
    writer.tables(0, init)
    for record in steps[:10]:
        writer.step(record)
    writer.tables(10, load)
    writer.finding(finding)
    writer.observe(observation)
    for record in steps[10:]:
        writer.step(record)
    writer.coverage(Coverage(), {"overhead": 1})
    writer.coverage(coverage, {"overhead": 0.01, "stopped": False})
    writer.end(EndReason.EXIT, code=3, detail="SystemExit")
    writer.close()

    run = open_run(tmp_path)
    log = run.log(2)
    assert run.path == writer.path == tmp_path
    assert run.ranks == [2]
    assert (log.rank, log.attempt) == (writer.rank, writer.attempt) == (2, 0)
    assert run.info["command"] == log.header["command"] == ["train.py", "--lr=1"]
    assert run.info["created_s"] == log.header["time_s"] == 12.5
    assert log.header["environment"] == environment
    assert log.header["config"] == {"every": 1}
    assert log.header["pid"] == os.getpid()
    assert list(log.steps()) == steps
    assert log.num_steps == 20
    assert log.step_range == range(20)
    assert log.step(13) == steps[13]
    assert log.step(20) is None
    assert list(log.inits()) == [(0, init), (10, load)]
    assert log.findings == (finding,)
    assert log.observations == (observation,)
    assert log.coverage == coverage
    assert log.stats == {"overhead": 0.01, "stopped": False}
    assert log.end == End(reason=EndReason.EXIT, code=3, detail="SystemExit")
    assert not log.torn
    assert log.damage == ()
    assert not log.alive


def test_a_run_can_be_read_while_it_is_written(writer: RunWriter) -> None:
    for count in range(5):
        log = open_run(writer.path).log()
        assert log.alive
        assert log.end is None
        assert log.damage == ()
        assert [record.step for record in log.steps()] == list(range(count))
        writer.step(make_step(count))


def test_one_step_is_one_write(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    for count in range(3):  # the first one also defines the names, and copies them
        writer.step(make_step(count))
    calls = []
    write = os.write

    def counting(fd: int, data: bytes) -> int:
        calls.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counting)
    writer.step(make_step(3))
    assert len(calls) == 1


def test_about_eight_bytes_a_tensor_a_step(writer: RunWriter) -> None:
    log = writer.path / "rank-00000.attempt-000.log"
    names = tuple(f"layers.{i}.self_attention.query.weight" for i in range(300))
    digests = np.arange(300, dtype=np.uint64) * 0x9E3779B97F4A7C15
    table = TensorTable(link=Link.UPDATE, names=names, digests=digests)
    record = replace(make_step(0), tables=(table,))
    writer.step(record)
    before = log.stat().st_size
    for number in range(1, 2001):
        writer.step(replace(record, step=number))
    assert (log.stat().st_size - before) / 2000 / 300 < 8.6


def test_short_writes_are_continued(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, memoryview(data)[:100]))
    steps = [make_step(k) for k in range(5)]
    for record in steps:
        writer.step(record)
    log = open_run(writer.path).log()
    assert list(log.steps()) == steps
    assert log.damage == ()


def test_names_are_written_twice_and_again_now_and_then(writer: RunWriter) -> None:
    log = writer.path / "rank-00000.attempt-000.log"
    writer.step(make_step(0))
    assert log.read_bytes().count(b'{"table":0,') == 2
    for number in range(1, 600):
        writer.step(make_step(number))
    assert log.stat().st_size > 64 * 1024
    assert log.read_bytes().count(b'{"table":0,') == 3


def test_names_that_change_at_every_step_fill_no_memory(writer: RunWriter) -> None:
    for number in range(3000):
        table = TensorTable(link=Link.BATCH, names=(f"x{number}",), digests=(number,))
        writer.step(replace(make_step(number), tables=(table,)))
    log = open_run(writer.path).log()
    last = list(log.steps())[-1]
    assert last.tables[0].as_dict() == {"x2999": 2999}
    assert len(writer._names._lists) <= 1024
    assert log.path.stat().st_size < 3000 * 700


def test_a_second_run_appends_an_attempt_chained_to_the_first(tmp_path: Path) -> None:
    for attempt in range(3):
        writer = RunWriter.open(tmp_path)
        assert writer.attempt == attempt
        for number in range(attempt + 1):
            writer.step(make_step(number))
        writer.end(EndReason.CLEAN)
        writer.close()
    run = open_run(tmp_path)
    assert [log.attempt for log in run.logs(0)] == [0, 1, 2]
    assert [log.num_steps for log in run.logs(0)] == [1, 2, 3]
    assert run.log().attempt == 2
    assert run.logs(0)[1].header["previous"]["file"] == "rank-00000.attempt-000.log"
    assert run.logs(7) == []
    assert run.damage == ()


def test_after_the_end_nothing_is_recorded(writer: RunWriter) -> None:
    writer.step(make_step(0))
    writer.end(EndReason.CLEAN)
    size = (writer.path / "rank-00000.attempt-000.log").stat().st_size
    writer.step(make_step(1))
    writer.observe(Observation(kind="late", step=1))
    writer.end(EndReason.SIGNAL, code=15)
    writer.close()
    writer.close()
    writer.step(make_step(2))
    log = open_run(writer.path).log()
    assert log.path.stat().st_size == size
    assert log.end == End(reason=EndReason.CLEAN)


def test_a_forked_child_writes_nothing(writer: RunWriter) -> None:
    writer.step(make_step(0))
    child = os.fork()
    if child == 0:
        try:
            writer.step(make_step(1))
            writer.observe(Observation(kind="x", step=1))
            writer.end(EndReason.EXIT, code=1)
            writer.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    writer.step(make_step(1))
    log = open_run(writer.path).log()
    assert [record.step for record in log.steps()] == [0, 1]
    assert log.end is None
    assert log.observations == ()
    assert log.damage == ()


def test_a_child_forked_while_another_thread_writes_does_not_hang(writer: RunWriter) -> None:
    with writer._lock:
        child = os.fork()
        if child == 0:
            writer.step(make_step(1))
            writer.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_share_a_writer(writer: RunWriter) -> None:
    def record(start: int) -> None:
        for number in range(start, start + 200):
            writer.step(make_step(number))

    threads = [threading.Thread(target=record, args=(start,)) for start in (0, 200, 400, 600)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = open_run(writer.path).log()
    assert log.damage == ()
    assert sorted(record.step for record in log.steps()) == list(range(800))
    assert log.step(555) == make_step(555)


class HandlerError(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("how", ["raises", "ends", "ends and raises"])
def test_a_signal_in_the_middle_of_a_write(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch, when: str, how: str
) -> None:
    """A handler runs before, in, or after the `write(2)` of a step, and may end the log itself."""
    for number in range(3):
        writer.step(make_step(number))
    write = os.write
    armed = True

    def interrupted(fd: int, data: bytes) -> int:
        nonlocal armed
        if not armed or len(data) < 200:
            return write(fd, data)
        armed = False
        count = {"before": 0, "half": len(data) // 2, "after": len(data)}[when]
        if count:
            write(fd, memoryview(data)[:count])
        handler()
        return count or write(fd, data)

    def handler() -> None:
        writer.observe(Observation(kind="seen", step=3))
        if "ends" in how:
            writer.end(EndReason.SIGNAL, code=int(signal.SIGTERM))
            writer.close()
        if "raises" in how:
            raise HandlerError

    monkeypatch.setattr(os, "write", interrupted)
    try:
        writer.step(make_step(3))
    except HandlerError:
        assert "raises" in how
    else:
        assert how == "ends"
    monkeypatch.undo()
    writer.step(make_step(4))
    writer.end(EndReason.EXCEPTION, detail="Interrupt")
    writer.close()

    log = open_run(writer.path).log()
    assert log.damage == ()
    assert not log.torn
    assert log.end is not None
    expected = [make_step(k) for k in range(5)]
    if "ends" in how:
        assert log.end.reason is EndReason.SIGNAL
        assert list(log.steps()) == expected[:4]
    else:
        assert log.end.reason is EndReason.EXCEPTION
        assert list(log.steps()) == expected
    assert [seen.kind for seen in log.observations] == ["seen"]


def test_real_signals_leave_a_whole_log(writer: RunWriter) -> None:
    def handler(*_: object) -> None:
        raise HandlerError

    old = signal.signal(signal.SIGALRM, handler)
    number = interrupts = 0
    try:
        while interrupts < 40:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00003 * interrupts)
                while True:
                    writer.step(make_step(number % 50))
                    number += 1
            except HandlerError:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    writer.end(EndReason.CLEAN)
    log = open_run(writer.path).log()
    assert log.damage == ()
    assert number <= log.num_steps <= number + interrupts
    assert log.end == End(reason=EndReason.CLEAN)


def test_a_frame_that_is_too_long_stops_the_recording(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everybit.ledger.append.MAX_PAYLOAD_BYTES", 100)
    with pytest.warns(UserWarning, match="too long"):
        writer.observe(Observation(kind="x" * 200, step=0))
    assert writer.failed is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.step(make_step(0))
        writer.end(EndReason.CLEAN)
    assert open_run(writer.path).damage == ()
