"""Ranks that augment alike, or number labels apart: the first rank tells, with no collective."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from tests.forked import Job, run_forked

import everybit

FOLDER = Path(__file__).parents[3] / "bench" / "data_faults" / "ranks"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ranks(name: str, *args: str) -> list[Job]:
    """Two ranks as torchrun would start them."""
    port = str(free_port())
    at = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    folder = f"{name}{''.join(args)}"
    return [
        Job(
            name=f"{folder}-{rank}",
            options=["run", "--run", folder, "--replay-every", "0"],
            script=[f"{name}.py", *args],
            environment={**at, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]


def test_two_ranks(tmp_path):
    names = ("augmented_alike", "labels_numbered_apart")
    for name in names:
        shutil.copy(FOLDER / f"{name}.py", tmp_path)
    jobs = [ranks(name, *args) for name in names for args in ((), ("--harmless",))]
    ended = run_forked(tmp_path, *jobs)
    assert {code for code, _, _ in ended.values()} == {0}, ended

    def found(folder):
        record = everybit.open_run(tmp_path / folder)
        return [[each.rule for each in record.log(rank).findings] for rank in record.ranks]

    assert found("augmented_alike") == [["DAT403"], []]
    assert found("augmented_alike--harmless") == [[], []]
    assert found("labels_numbered_apart") == [["DAT414"], []]
    assert found("labels_numbered_apart--harmless") == [[], []]
