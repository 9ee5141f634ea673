from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.ledger_campaign import make_step

from everybit.core.errors import PathError
from everybit.core.verdict import Coverage
from everybit.ledger import EndReason, RecordingStopped, RunWriter, open_run

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


def record_everything(writer: RunWriter, num_steps: int = 400) -> list[warnings.WarningMessage]:
    """Use every method of a writer on a disk that gives out; return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(num_steps):
            writer.step(make_step(number))
        writer.tables(0, make_step(0).tables)
        writer.coverage(Coverage(), {})
        writer.end(EndReason.CLEAN)
        writer.close()
    return caught


def assert_stopped(writer: RunWriter, caught: list[warnings.WarningMessage], code: int) -> None:
    """One warning in all, and what was recorded before is read back, torn at worst."""
    assert writer.failed is not None
    assert writer.failed.errno == code
    assert [warning.category for warning in caught] == [RecordingStopped]
    assert "rank-00000.attempt-000.log" in str(caught[0].message)
    assert "the job goes on" in str(caught[0].message)
    log = open_run(writer.path).log()
    assert log.damage == ()
    assert log.end is None
    steps = list(log.steps())
    assert steps == [make_step(k) for k in range(len(steps))]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_a_write_that_fails_stops_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    writer = RunWriter.open(tmp_path)
    write, left = os.write, 5000

    def failing(fd: int, data: bytes) -> int:
        nonlocal left
        count = min(left, len(data))
        if count == 0:
            raise OSError(code, os.strerror(code))
        left -= count
        return write(fd, memoryview(data)[:count])

    monkeypatch.setattr(os, "write", failing)
    caught = record_everything(writer)
    monkeypatch.undo()
    assert_stopped(writer, caught, code)
    log = open_run(tmp_path).log()
    assert log.num_steps > 5
    assert log.torn


def test_a_sync_that_fails_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter.open(tmp_path)

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.warns(RecordingStopped):
        writer.end(EndReason.CLEAN)
    assert writer.failed is not None


def test_warnings_that_are_errors_do_not_reach_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RunWriter.open(tmp_path)

    def failing(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", failing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.step(make_step(0))
        writer.step(make_step(1))
    assert [record.message.count("no space left") for record in caplog.records] == [1]


_LIMITED = """
import resource, sys, warnings
from bench.ledger_campaign import make_step
from everybit.ledger import EndReason, RunWriter
writer = RunWriter.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in range(200):
        writer.step(make_step(number))
    writer.end(EndReason.CLEAN)
print(len(caught), writer.failed.errno)
"""


def test_a_file_size_limit_stops_the_recording(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, tmp_path / "run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", str(errno.EFBIG)], done.stderr
    log = open_run(tmp_path / "run").log()
    assert log.path.stat().st_size == 20_000
    assert log.torn
    assert log.damage == ()
    steps = list(log.steps())
    assert steps == [make_step(k) for k in range(len(steps))]
    assert len(steps) > 20


@contextlib.contextmanager
def mounted(target: Path, *arguments: str) -> Iterator[Path]:
    """Mount something at `target`, or skip the test where nobody may."""
    target.mkdir()
    done = subprocess.run(
        ["mount", *arguments, target], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"may not mount: {done.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def test_a_full_disk_stops_the_recording(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as disk:
        writer = RunWriter.open(disk / "run")
        caught = record_everything(writer)
        assert_stopped(writer, caught, errno.ENOSPC)
        assert open_run(disk / "run").log().num_steps > 20
        fill(disk)
        with pytest.raises(PathError, match="no space left on device; choose a folder"):
            RunWriter.open(disk / "other")


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def test_a_read_only_mount_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with mounted(tmp_path / "disk", "--bind", str(tmp_path / "source")) as disk:
        done = subprocess.run(
            ["mount", "-o", "remount,ro,bind", disk], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"may not remount: {done.stderr.strip()}")
        with pytest.raises(PathError, match="read-only file system; choose a folder") as caught:
            RunWriter.open(disk / "run")
        assert str(disk) in str(caught.value)
