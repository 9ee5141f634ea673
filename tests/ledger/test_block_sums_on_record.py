from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from everybit.core.link import Link
from everybit.core.observation import StepRecord, SumTable, TensorTable
from everybit.ledger import RunWriter, open_run
from everybit.ledger import frame as frames
from everybit.ledger.payload import PayloadError
from everybit.ledger.step import decode_step, encode_step, step_number

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("fc()", "fc()#1")
TABLE = TensorTable(link=Link.FORWARD, names=NAMES, digests=(1, 2**64 - 1))
SUMS = SumTable(
    link=Link.FORWARD, names=NAMES, values=np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32)
)
RECORD = StepRecord(
    step=7, time_s=1.0, duration_s=2.0, guard_s=0.5, tables=(TABLE,), sums=(SUMS,)
)  # fmt: skip


def decode(payload: bytes, **options: bool) -> StepRecord:
    return decode_step(memoryview(payload), lambda _: (Link.FORWARD, NAMES), **options)


def test_sums_are_read_back_and_the_ids_with_them() -> None:
    payload = encode_step(RECORD, [3, 5])
    assert step_number(memoryview(payload)) == (7, [3, 5])
    assert decode(payload) == RECORD
    assert decode(payload).sums[0].values.dtype == np.float64
    assert decode(payload, sums=False).sums == ()


def test_golden_payload() -> None:
    wanted = """
        0700000000000000 000000000000f03f 0000000000000040 000000000000e03f
        08000000 00000000 00000000 01000000
        03000000 02000000 0100000000000000 ffffffffffffffff
        01000000 05000000 02000000 02000000 04000000
        0000c03f 0000c07f 00000080 0000807f
    """
    assert encode_step(RECORD, [3, 5]) == bytes.fromhex("".join(wanted.split()))


def test_float64_keeps_its_digits() -> None:
    values = np.array([[1 / 3], [1e300]])
    record = replace(RECORD, sums=(replace(SUMS, values=values),))
    assert decode(encode_step(record, [0, 0])).sums[0].values.tolist() == values.tolist()
    nested = replace(RECORD, sums=(replace(SUMS, values=((1 / 3,), (1e300,))),))
    assert decode(encode_step(nested, [0, 0])) == record


def test_sums_whose_names_are_lost_are_left_out() -> None:
    payload = memoryview(encode_step(RECORD, [3, 5]))
    read = decode_step(payload, lambda number: (Link.FORWARD, NAMES) if number == 3 else None)
    assert read == replace(RECORD, sums=())


@pytest.mark.parametrize("cut", range(1, 37, 4))
def test_what_does_not_fit_is_no_step(cut: int) -> None:
    with pytest.raises(PayloadError):
        step_number(memoryview(encode_step(RECORD, [3, 5])[:-cut]))


def test_other_widths_and_counts_are_no_step() -> None:
    payload = encode_step(RECORD, [3, 5])
    for place, value in ((-20, 2), (-28, 3), (-36, 2**31)):
        wrong = bytearray(payload)
        wrong[place : place + 4] = value.to_bytes(4, "little")
        with pytest.raises(PayloadError):
            step_number(memoryview(wrong))


def test_digests_as_arrays_are_the_same() -> None:
    read = decode(encode_step(RECORD, [3, 5]), arrays=True)
    assert isinstance(read.tables[0].digests, np.ndarray)
    assert read == RECORD


def record_run(folder: Path, *records: StepRecord) -> None:
    writer = RunWriter.open(folder)
    for record in records:
        writer.step(record)
    writer.close()


def test_a_run_with_sums_is_read_by_step(tmp_path: Path) -> None:
    plain = replace(RECORD, step=8, sums=())
    record_run(tmp_path / "run", RECORD, plain)
    run = open_run(tmp_path / "run")
    assert run.damage == ()
    log = run.log(rank=0)
    assert list(log.steps()) == [RECORD, plain]
    assert list(log.steps(arrays=True, sums=False)) == [replace(RECORD, sums=()), plain]
    (first, second) = log.steps()
    assert first.tables[0].names is second.tables[0].names is first.sums[0].names


def test_runs_of_format_1_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(RECORD, sums=())
    monkeypatch.setattr(frames, "FORMAT", 1)
    record_run(tmp_path / "run", plain)
    monkeypatch.undo()
    (log,) = (tmp_path / "run").glob("*.log")
    assert log.read_bytes()[8] == 1
    record_run(tmp_path / "run", RECORD)  # A later attempt, in today's format.
    run = open_run(tmp_path / "run")
    assert run.damage == ()
    assert list(run.logs(0)[0].steps()) == [plain]
    assert list(run.logs(0)[1].steps()) == [RECORD]


def test_a_later_format_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FORMAT", 3)
    record_run(tmp_path / "run", replace(RECORD, sums=()))
    monkeypatch.undo()
    assert "format 3" in open_run(tmp_path / "run").damage[0].what
