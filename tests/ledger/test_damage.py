from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest
from bench.ledger_campaign import flip_campaign, make_run, make_step
from tests.ledger.runs import (
    LOG,
    NUM_STEPS,
    assert_steps_are_true,
    frames_of,
    numbers,
    only,
    record,
    step_frames,
)

from everybit.ledger import open_run
from everybit.ledger.frame import SYNC

if TYPE_CHECKING:
    from pathlib import Path


def test_a_slice_of_the_flip_campaign(tmp_path: Path) -> None:
    result = flip_campaign(tmp_path / "run", count=600, seed=1, num_steps=4)
    assert result["flips"] == 600
    assert result["passed_as_clean"] == []
    assert result["read_wrong_or_partly"] == []
    assert result["most_steps_lost_by_one_flip"] == 1


def test_a_flip_in_a_step_is_bounded_by_its_frame(run: Path) -> None:
    frame = step_frames(run / LOG)[5]
    for at in (frame.start, frame.start + 13, frame.start + 50, frame.end - 20, frame.end - 1):
        copy = bytearray((run / LOG).read_bytes())
        copy[at] ^= 16
        folder = run.parent / f"copy-{at}"
        shutil.copytree(run, folder)
        (folder / LOG).write_bytes(copy)
        damage = only(open_run(folder))
        assert damage.path == LOG
        assert damage.byte_range == (frame.start, frame.end)
        assert (damage.step_before, damage.step_after, damage.rank) == (4, 6, 0)
        assert numbers(folder) == [k for k in range(NUM_STEPS) if k != 5]


def test_every_truncation_is_told(run: Path) -> None:
    whole = (run / LOG).read_bytes()
    frames = frames_of(run / LOG)
    boundaries = {frame.end for frame in frames}
    ends = {frame.end: frame for frame in step_frames(run / LOG)}
    for size in range(len(whole)):
        if size not in boundaries and size % 29 and len(whole) - size > 150:
            continue
        (run / LOG).write_bytes(whole[:size])
        log = open_run(run).log()
        assert log.end is None
        assert log.num_steps == sum(end <= size for end in ends)
        if size < frames[0].end:
            assert "first frame" in log.damage[0].what
            assert log.header == {}
        else:
            assert log.damage == (), size
            assert log.torn == (size not in boundaries), size
        assert_steps_are_true(run)


def test_a_cut_that_a_later_attempt_knows_better_is_damage(run: Path) -> None:
    record(run, 3)
    assert open_run(run).damage == ()
    frames = frames_of(run / LOG)
    os.truncate(run / LOG, frames[-4].end)
    damage = only(open_run(run))
    assert damage.path == LOG
    assert damage.byte_range == (frames[-4].end, frames[-1].end)
    assert "cut" in damage.what


def test_a_kill_before_a_later_attempt_is_no_damage(run: Path) -> None:
    os.truncate(run / LOG, step_frames(run / LOG)[7].end - 10)
    record(run, 3)
    reader = open_run(run)
    assert reader.damage == ()
    assert reader.logs(0)[0].torn
    assert not reader.logs(0)[1].torn
    # and the torn frame itself may not go either
    os.truncate(run / LOG, step_frames(run / LOG)[6].end)
    assert "cut" in only(open_run(run)).what


def test_a_replaced_or_removed_earlier_attempt_is_told(run: Path) -> None:
    record(run, 3)
    record(run, 4)
    other = record(run.parent / "other", NUM_STEPS + 4)
    first = (run / LOG).read_bytes()
    (run / LOG).unlink()
    assert "is gone" in only(open_run(run)).what
    # the same attempt recorded again, under this run.json: whole in itself, but not the one
    shutil.copy(run / "run.json", other / "run.json")
    (other / LOG).unlink()
    record(other, NUM_STEPS + 4)
    shutil.copy(other / LOG, run / LOG)
    assert "replaced" in only(open_run(run)).what
    (run / LOG).write_bytes(first)
    assert open_run(run).damage == ()
    middle = run / "rank-00000.attempt-001.log"
    middle.unlink()
    damage = only(open_run(run))
    assert damage.path == middle.name
    assert "is gone" in damage.what


def test_a_removed_rank_is_told(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "rank-00001.attempt-000.log").unlink()
    damage = only(open_run(tmp_path))
    assert "no log of rank 1" in damage.what
    (tmp_path / "rank-00000.attempt-000.log").unlink()
    (tmp_path / "rank-00000.attempt-001.log").unlink()
    assert [found.rank for found in open_run(tmp_path).damage] == [0, 1]


def test_run_json_that_is_gone_damaged_or_another_runs(run: Path) -> None:
    data = (run / "run.json").read_bytes()
    (run / "run.json").write_bytes(data.replace(b" ", b"\t", 1))
    reader = open_run(run)
    assert only(reader).path == "run.json"
    assert only(reader).byte_range == (0, len(data))
    assert reader.info["world_size"] == 1
    assert numbers(run) == list(range(NUM_STEPS))
    (run / "run.json").write_bytes(b"")
    assert "empty" in only(open_run(run)).what
    (run / "run.json").unlink()
    assert "gone" in only(open_run(run)).what
    other = record(run.parent / "other")
    shutil.copy(other / "run.json", run / "run.json")
    assert "another run.json" in only(open_run(run)).what
    assert numbers(run) == list(range(NUM_STEPS))


def test_logs_swapped_between_runs_and_ranks(tmp_path: Path) -> None:
    one, two = record(tmp_path / "one"), record(tmp_path / "two", 5)
    logs = (one / LOG).read_bytes(), (two / LOG).read_bytes()
    (one / LOG).write_bytes(logs[1])
    (two / LOG).write_bytes(logs[0])
    for folder in (one, two):
        assert "another run.json" in only(open_run(folder)).what
    both = tmp_path / "both"
    make_run(both)
    names = "rank-00000.attempt-000.log", "rank-00001.attempt-000.log"
    (both / names[0]).rename(both / "x")
    (both / names[1]).rename(both / names[0])
    (both / "x").rename(both / names[1])
    assert {damage.path for damage in open_run(both).damage} == set(names)
    assert all("swapped" in d.what or "replaced" in d.what for d in open_run(both).damage)


@pytest.mark.parametrize(("one", "other"), [(3, 4), (2, 9), (0, 11)])
def test_swapped_frames_are_told_and_all_read(run: Path, one: int, other: int) -> None:
    data = bytearray((run / LOG).read_bytes())
    frames = step_frames(run / LOG)
    a, b = frames[one], frames[other]
    assert a.end - a.start == b.end - b.start
    data[a.start : a.end], data[b.start : b.end] = data[b.start : b.end], data[a.start : a.end]
    (run / LOG).write_bytes(data)
    reader = open_run(run)
    assert any("out of order" in damage.what for damage in reader.damage)
    assert numbers(run) == list(range(NUM_STEPS))
    assert_steps_are_true(run)
    assert reader.log().step(one) == make_step(one)


def test_a_repeated_frame_is_told_and_read_once(run: Path) -> None:
    data = (run / LOG).read_bytes()
    frame = step_frames(run / LOG)[6]
    for at in (frame.end, step_frames(run / LOG)[9].end, len(data)):
        (run / LOG).write_bytes(data[:at] + data[frame.start : frame.end] + data[at:])
        damage = only(open_run(run))
        assert "second time" in damage.what
        assert damage.byte_range == (at, at + frame.end - frame.start)
        assert numbers(run) == list(range(NUM_STEPS))


def test_a_removed_frame_is_told(run: Path) -> None:
    data = (run / LOG).read_bytes()
    frames = step_frames(run / LOG)
    (run / LOG).write_bytes(data[: frames[3].start] + data[frames[5].start :])
    damage = only(open_run(run))
    assert damage.byte_range == (frames[3].start, frames[3].start)
    assert "2 frames are missing" in damage.what
    assert (damage.step_before, damage.step_after) == (2, 5)
    assert numbers(run) == [0, 1, 2, *range(5, NUM_STEPS)]


def test_the_first_frames_of_another_log_disown_none(run: Path) -> None:
    other = record(run.parent / "other")
    data, foreign = (run / LOG).read_bytes(), (other / LOG).read_bytes()
    end, foreign_end = frames_of(run / LOG)[0].end, frames_of(other / LOG)[0].end
    (run / LOG).write_bytes(foreign[:foreign_end] + data[end:])
    reader = open_run(run)
    assert any("another log" in damage.what for damage in reader.damage)
    assert numbers(run) == list(range(NUM_STEPS))


@pytest.mark.parametrize(
    "tail", [b"garbage", bytes(4096), SYNC, SYNC * 9, b"\xeb", random.Random(0).randbytes(5000)]
)
def test_a_tail_after_the_end_is_told(run: Path, tail: bytes) -> None:
    with (run / LOG).open("ab") as stream:
        stream.write(tail)
    log = open_run(run).log()
    assert log.damage or log.torn
    assert log.tail_damaged or log.torn
    assert log.end is not None
    assert numbers(run) == list(range(NUM_STEPS))


def test_a_zeroed_page_is_one_damage_and_bounded(tmp_path: Path) -> None:
    run = record(tmp_path, num_steps=60, num_tensors=60)
    data = bytearray((run / LOG).read_bytes())
    for page in range(0, len(data), 4096):
        size = len(data[page : page + 4096])
        (run / LOG).write_bytes(data[:page] + bytes(size) + data[page + size :])
        reader = open_run(run)
        damage = only(reader)
        assert damage.byte_range[0] <= page
        assert damage.byte_range[1] >= page + size
        read = list(reader.log().steps())
        assert len(read) >= 60 - 6
        assert all(step == make_step(step.step, 60) for step in read)


def test_zeros_up_to_the_end_are_damage_not_a_torn_frame(run: Path) -> None:
    frame = step_frames(run / LOG)[8]
    with (run / LOG).open("r+b") as stream:
        stream.truncate(frame.start)
        stream.truncate(frame.start + 5000)
    log = open_run(run).log()
    assert not log.torn
    assert log.damage[0].byte_range == (frame.start, frame.start + 5000)
    assert "zeros" in log.damage[0].what
    assert numbers(run) == list(range(8))


def test_a_torn_frame_behind_damage_is_both(run: Path) -> None:
    frames = step_frames(run / LOG)
    data = bytearray((run / LOG).read_bytes()[: frames[8].end - 9])
    data[frames[7].start + 60] ^= 1
    (run / LOG).write_bytes(data)
    log = open_run(run).log()
    assert log.torn
    assert [found.byte_range for found in log.damage] == [(frames[7].start, frames[7].end)]
    assert numbers(run) == list(range(7))
