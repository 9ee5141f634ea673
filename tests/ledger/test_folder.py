from __future__ import annotations

import json
import multiprocessing
import os
import stat
from typing import TYPE_CHECKING

import pytest

from everybit.core.errors import PathError, UsageError
from everybit.ledger import EndReason, RunWriter, folder, open_run
from everybit.ledger.folder import decode_run_file, encode_run_file, list_logs

if TYPE_CHECKING:
    from pathlib import Path


def test_no_flipped_bit_of_run_json_passes() -> None:
    data = encode_run_file({"schema": "everybit.run/1", "command": ["a", "ü"], "created_s": 1.5})
    assert not decode_run_file(data).damage
    assert json.loads(data)["command"] == ["a", "ü"]
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_run_file(bytes(damaged)).damage, bit


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_cut_run_json_is_damaged(cut: int) -> None:
    data = encode_run_file({"schema": "everybit.run/1"})
    assert decode_run_file(data[:cut]).damage


def test_a_longer_run_json_is_damaged() -> None:
    data = encode_run_file({"schema": "everybit.run/1"})
    assert decode_run_file(data + b"\n").damage
    assert decode_run_file(data + data).damage


def test_the_folder_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    old = os.umask(0)
    try:
        RunWriter.open(path).close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for file in path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert sorted(file.name for file in path.iterdir()) == [
        "rank-00000.attempt-000.log",
        "run.json",
    ]


def _join(path: Path, rank: int, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    writer = RunWriter.open(path, rank=rank, world_size=6)
    writer.end(EndReason.CLEAN)
    writer.close()


def test_ranks_that_open_at_once_share_one_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(3):
        path = tmp_path / f"run-{attempt}"
        barrier = context.Barrier(6)
        ranks = [context.Process(target=_join, args=(path, rank, barrier)) for rank in range(6)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
            assert process.exitcode == 0
        run = open_run(path)
        assert run.ranks == list(range(6))
        assert run.damage == ()
        assert len(list(path.iterdir())) == 7  # no temporary file is left


def test_two_processes_of_one_rank_get_two_attempts(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    same = [context.Process(target=_join, args=(tmp_path, 0, barrier)) for _ in range(4)]
    for process in same:
        process.start()
    for process in same:
        process.join()
        assert process.exitcode == 0
    assert list_logs(tmp_path) == {0: [0, 1, 2, 3]}
    # rank 1 to 5 never came; nothing else is wrong
    assert {damage.rank for damage in open_run(tmp_path).damage} == {1, 2, 3, 4, 5}


def test_without_links_the_file_is_made_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(folder.os, "link", refuse)
    for attempt in range(2):
        writer = RunWriter.open(tmp_path)
        assert writer.attempt == attempt
        writer.end(EndReason.CLEAN)
        writer.close()
    assert open_run(tmp_path).damage == ()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_run_takes_no_new_attempt(tmp_path: Path) -> None:
    RunWriter.open(tmp_path).close()
    data = bytearray((tmp_path / "run.json").read_bytes())
    data[5] ^= 1
    (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(PathError, match="choose another folder"):
        RunWriter.open(tmp_path)


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(PathError, match="choose a folder"):
            RunWriter.open(path)
        with pytest.raises(PathError):
            open_run(path)


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="not a run folder"):
        open_run(tmp_path)
    with pytest.raises(PathError, match="no such file"):
        open_run(tmp_path / "missing")


def test_a_later_format_is_refused_not_called_damage(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(encode_run_file({"schema": "everybit.run/2"}))
    for use in (open_run, RunWriter.open):
        with pytest.raises(UsageError, match=r"everybit\.run/2"):
            use(tmp_path)


def test_a_pipe_does_not_block_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(PathError, match="not a regular file"):
        open_run(tmp_path)
    (tmp_path / "run.json").unlink()
    RunWriter.open(tmp_path).close()
    log = tmp_path / "rank-00000.attempt-000.log"
    log.unlink()
    os.mkfifo(log)
    assert "cannot be opened" in open_run(tmp_path).damage[0].what


@pytest.mark.parametrize(
    "name", ["rank-00000.attempt-000.log.bak", "rank-0.attempt-0.log", "notes"]
)
def test_other_files_are_passed_over(tmp_path: Path, name: str) -> None:
    writer = RunWriter.open(tmp_path)
    writer.end(EndReason.CLEAN)
    (tmp_path / name).write_text("x")
    assert open_run(tmp_path).damage == ()
    assert RunWriter.open(tmp_path).attempt == 1


def test_runs_that_have_ended_hold_no_file(tmp_path: Path) -> None:
    def held() -> int:
        return sum(1 for _ in os.scandir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("open files cannot be counted on this system")
    before = None
    for number in range(4):
        writer = RunWriter.open(tmp_path / str(number))
        writer.end(EndReason.CLEAN)
        writer.close()
        open_run(tmp_path / str(number)).log()
        before = held() if before is None else before
    assert held() == before
