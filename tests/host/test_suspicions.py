"""The record of suspected devices, across runs."""

from __future__ import annotations

import stat

import pytest
import torch

import everybit
from everybit.host.suspicions import Suspicion, Suspicions


def suspicion(serial: str = "GPU-1", **facts) -> Suspicion:
    return Suspicion(
        **{"serial": serial, "at": "2026-11-30T00:00:00+00:00", "host": "a", "rule": "CMP701",
           "run": "/runs/a", **facts}
    )  # fmt: skip


def test_kept_and_read_back_by_device(tmp_path):
    record = Suspicions(tmp_path / "state")
    assert record.read() == ()
    for serial in ("GPU-1", "GPU-2", "GPU-1"):
        record.add(suspicion(serial))
    assert len(record.read()) == 3
    assert record.read("GPU-1") == (suspicion(), suspicion())
    assert everybit.suspicions("GPU-2", folder=tmp_path / "state") == (suspicion("GPU-2"),)
    assert stat.S_IMODE(record.path.stat().st_mode) == 0o600


def test_lines_that_are_none_are_passed_over(tmp_path):
    record = Suspicions(tmp_path)
    record.add(suspicion())
    with record.path.open("ab") as file:
        file.write(b'{"serial": 1\n[]\n{"other": 2}\n\xff\n')
    record.add(suspicion("GPU-2"))
    assert [each.serial for each in record.read()] == ["GPU-1", "GPU-2"]


def damaged_run(folder, state) -> everybit.Finding:
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(
        model, optimizer, run=folder, on_finding="record", suspicions=str(state)
    ) as guard:
        for step in range(3):
            if step == 2:
                model.weight.detach().numpy().view("uint32")[0, 0] ^= 1 << 20
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    (finding,) = guard.findings
    return finding


def test_a_second_finding_on_a_device_tells_of_the_first(tmp_path):
    first = damaged_run(tmp_path / "a", tmp_path / "state")
    assert first.evidence["device_history"]["earlier"] == 0
    second = damaged_run(tmp_path / "b", tmp_path / "state")
    history = second.evidence["device_history"]
    assert (history["earlier"], history["earlier_runs"]) == (1, 1)
    assert history["serial"].startswith("host:")
    kept = everybit.suspicions(folder=tmp_path / "state")
    assert [each.step for each in kept] == [2, 2]
    assert kept[0].run == str((tmp_path / "a").resolve())


@pytest.mark.parametrize("broken", ["file", "read-only"])
def test_a_record_that_cannot_be_written_stops_nothing(tmp_path, broken):
    state = tmp_path / "state"
    if broken == "file":
        state.write_text("no folder")
    else:
        (state / "suspicions.jsonl").mkdir(parents=True)
    assert damaged_run(tmp_path / "a", state).rule == "MEM601"
