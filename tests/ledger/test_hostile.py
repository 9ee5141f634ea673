from __future__ import annotations

import os
import random
import shutil
import struct
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import xxhash
from bench.ledger_campaign import make_run, make_step
from hypothesis import given, settings
from hypothesis import strategies as st
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
from everybit.ledger.folder import encode_run_file
from everybit.ledger.frame import SYNC, Kind, encode_frame
from everybit.ledger.scan import Broken, Intact, Torn, scan_frames
from everybit.ledger.window import Window

if TYPE_CHECKING:
    from everybit.core.observation import StepRecord


@pytest.mark.parametrize("length", [2**32 - 1, 2**26, 2**26 + 1, 0])
def test_an_impossible_length_costs_neither_time_nor_memory(run: Path, length: int) -> None:
    frames = step_frames(run / LOG)
    data = bytearray((run / LOG).read_bytes())
    at = frames[4].start
    struct.pack_into("<I", data, at + 12, length)
    for repaired in (False, True):
        if repaired:  # the header's own check holds: then the length is believed, up to the limit
            data[at + 48 : at + 56] = xxhash.xxh3_64_digest(bytes(data[at : at + 48]))
        (run / LOG).write_bytes(data)
        tracemalloc.start()
        assert numbers(run) == [0, 1, 2, 3, *range(5, NUM_STEPS)]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()
        assert only(open_run(run)).byte_range == (at, frames[4].end)


def test_an_empty_log_is_damage(run: Path) -> None:
    (run / LOG).write_bytes(b"")
    reader = open_run(run)
    assert "empty" in only(reader).what
    log = reader.log()
    assert log.header == {}
    assert log.step_range == range(0)
    assert (log.end, log.coverage, log.stats, log.findings) == (None, None, {}, ())
    assert not log.alive


def test_frames_made_to_nest_do_not_hold_the_reader(tmp_path: Path) -> None:
    run = record(tmp_path)
    # Every 72 bytes a proven header that claims 8 MiB: believing each would hash 2 TB.
    head = encode_frame(3, b"", flags=0, sequence=5, log_id=7, previous=bytes(16))[:48]
    head = head[:12] + struct.pack("<I", 8 << 20) + head[16:48]
    head += xxhash.xxh3_64_digest(head)
    with (run / LOG).open("ab") as stream:
        stream.write((head + bytes(16)) * (16 * 1024 * 1024 // 72))
    start = time.perf_counter()
    log = open_run(run).log()
    assert log.tail_damaged or log.torn
    assert numbers(run) == list(range(NUM_STEPS))
    assert time.perf_counter() - start < 20


def test_many_damaged_places_are_told_as_few(tmp_path: Path) -> None:
    run = record(tmp_path, num_steps=3000)
    data = bytearray((run / LOG).read_bytes())
    for frame in step_frames(run / LOG)[::2]:
        data[frame.start + 80] ^= 1
    (run / LOG).write_bytes(data)
    reader = open_run(run)
    assert 200 < len(reader.damage) <= 256
    assert "many" in reader.damage[-1].what
    assert numbers(run) == list(range(1, 3000, 2))


def test_intact_frames_with_odd_content_are_damage_not_errors(run: Path) -> None:
    frames = frames_of(run / LOG)
    last = frames[-1]
    contents = [
        (kind, payload, flags)
        for kind in (*Kind, 200)
        for payload, flags in (
            (b"", 0),
            (b"{}", 0),
            (b"[]", 1),
            (b'{"table":0}', 0),
            (b"\0" * 48, 9),
        )
    ]
    data = (run / LOG).read_bytes()[: last.start]
    sequence, previous = last.header.sequence, frames[-2].check
    for kind, payload, flags in contents:
        frame = encode_frame(
            kind,
            payload,
            flags=flags,
            sequence=sequence,
            log_id=last.header.log_id,
            previous=previous,
        )
        data, sequence, previous = data + frame, sequence + 1, frame[-16:]
    (run / LOG).write_bytes(data)
    reader = open_run(run)
    assert any("intact, but its content" in damage.what for damage in reader.damage)
    log = reader.log()
    assert [step.step for step in log.steps()][:NUM_STEPS] == list(range(NUM_STEPS))
    assert (log.end, log.coverage, log.findings, log.observations) == (None, None, (), ())
    assert list(log.inits()) == []


def test_a_frame_that_was_rewritten_with_its_checksum_breaks_the_chain(run: Path) -> None:
    frame = step_frames(run / LOG)[5]
    data = bytearray((run / LOG).read_bytes())
    payload = bytearray(frame.payload)
    payload[-1] ^= 1
    forged = encode_frame(
        Kind.STEP,
        bytes(payload),
        flags=0,
        sequence=frame.header.sequence,
        log_id=frame.header.log_id,
        previous=frame.header.previous,
    )
    data[frame.start : frame.end] = forged
    (run / LOG).write_bytes(data)
    damage = only(open_run(run))
    assert "does not follow" in damage.what
    assert damage.byte_range == (frame.end, frame.end)
    assert (damage.step_before, damage.step_after) == (5, 6)


def test_a_world_of_any_size_is_told_in_few_words(run: Path) -> None:
    (run / "run.json").write_bytes(
        encode_run_file({"schema": "everybit.run/1", "world_size": 10**15})
    )
    reader = open_run(run)
    missing = [damage.what for damage in reader.damage if "no log of" in damage.what]
    assert len(missing) == 16
    assert missing[0] == "no log of rank 1, of 1000000000000000 ranks"
    assert missing[-1] == "no log of 999999999999984 more ranks, of 1000000000000000"


def test_damage_after_the_scan_is_told(run: Path) -> None:
    reader = open_run(run)
    log = reader.log()
    assert log.num_steps == NUM_STEPS
    frame = step_frames(run / LOG)[4]
    with (run / LOG).open("r+b") as stream:
        stream.seek(frame.start + 90)
        stream.write(b"\xff\x00\xff")
    assert log.step(4) is None
    assert len(list(log.steps())) == NUM_STEPS - 1
    assert "no longer" in only(reader).what
    (run / LOG).unlink()
    assert list(log.steps()) == []
    assert log.step(3) is None


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_mess_is_read_without_an_exception(seed: int, edits: int) -> None:
    """Random cuts, copies, moves, zeros and noise over a whole folder."""
    rng = random.Random(seed)
    folder = _mess(rng, edits)
    reader = open_run(folder)
    truth = {rank: {step.step: step for step in _steps(rank)} for rank in (0, 1)}
    for rank in reader.ranks:
        for log in reader.logs(rank):
            for step in log.steps():
                # A log that was moved whole keeps its own rank's steps.
                wholes = [truth[source][step.step] for source in (0, 1)]
                if any("names" in damage.what for damage in log.damage):
                    assert any(set(step.tables) <= set(whole.tables) for whole in wholes)
                else:
                    assert step in wholes
            list(log.inits())
            _ = (log.header, log.end, log.coverage, log.findings, log.observations, log.liveness)
    assert isinstance(reader.damage, tuple)
    shutil.rmtree(folder)


def _steps(rank: int) -> list[StepRecord]:
    return [make_step(k, rank=rank) for k in range(NUM_STEPS)]


def _mess(rng: random.Random, edits: int) -> Path:
    base = Path(tempfile.mkdtemp(prefix="everybit-mess-"))
    make_run(base / "run", NUM_STEPS)
    logs = sorted(path for path in (base / "run").iterdir())
    for _ in range(edits):
        path = rng.choice(logs)
        data = path.read_bytes()
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        c = rng.randrange(len(data) + 1)
        path.write_bytes(
            rng.choice(
                [
                    data[:a] + data[b:],
                    data[:a],
                    data[:c] + data[a:b] + data[c:],
                    data[:a] + bytes(b - a) + data[b:],
                    data[:a] + rng.randbytes(min(b - a, 300)) + data[b:],
                    rng.choice(logs).read_bytes() if path.suffix == ".log" else data,
                    data + SYNC,
                ]
            )
        )
    return base / "run"


def test_the_scan_has_no_gaps(run: Path) -> None:
    data = bytearray((run / LOG).read_bytes()[:-30])
    data[3000] ^= 1
    (run / LOG).write_bytes(data)
    at = 0
    with Window(run / LOG) as window:
        pieces = list(scan_frames(window))
    for piece in pieces:
        assert piece.start == at
        at = piece.end
    assert at == len(data)
    assert {type(piece) for piece in pieces} == {Intact, Broken, Torn}


@pytest.mark.parametrize("size", [64, 100, 4096])
def test_a_mark_across_two_windows_is_found(tmp_path: Path, size: int) -> None:
    for at in range(size - 9, size + 2):
        (tmp_path / "file").write_bytes(b"x" * at + SYNC + b"y" * 500)
        with Window(tmp_path / "file", size) as window:
            assert window.find(SYNC, 0) == at
            assert window.find(SYNC, at + 1) == window.size


def test_sectors_that_cannot_be_read_are_damage(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread

    def failing(fd: int, num_bytes: int, offset: int) -> bytes:
        if offset <= 4096 < offset + num_bytes or offset == 4096:
            raise OSError(5, "Input/output error")
        return pread(fd, num_bytes, offset)

    monkeypatch.setattr(os, "pread", failing)
    reader = open_run(run)
    damage = only(reader)
    assert damage.byte_range[0] <= 4096 < damage.byte_range[1]
    assert len(numbers(run)) >= 5
    assert_steps_are_true(run)
