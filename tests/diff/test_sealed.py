"""Steps that both records hold byte for byte are not opened; the answer is the same."""

from __future__ import annotations

import pytest
from tests.diff.test_verb import write_run

from everybit.api.diff import diff
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.diff.side import SealedStep
from everybit.ledger import RunWriter, open_run
from everybit.ledger.step import find_table, table_at


def write(folder, streams, *, steps=8, part=None, scalars=True):
    """A run whose random streams are `streams(step)`; `part` is the step whose gradient differs."""
    writer = RunWriter.open(folder, rank=0, environment={}, config={"every": 1}, command=("t.py",))
    for step in range(steps):
        tables = (
            TensorTable(link=Link.BATCH, names=("0", "1"), digests=(step, 5)),
            TensorTable(link=Link.RNG, names=("python", "torch"), digests=streams(step)),
            TensorTable(link=Link.GRAD, names=("w",), digests=(9 if step == part else step,)),
        )
        writer.step(
            StepRecord(
                step=step,
                time_s=0.0,
                duration_s=0.1,
                guard_s=0.0,
                losses=(1.0,),
                tables=tables,
                scalars={"grad_norm": 2.0} if scalars else {},
            )
        )
    writer.close()
    return folder


def opened(monkeypatch) -> list[int]:
    """The steps that are opened from now on."""
    seen: list[int] = []
    build = SealedStep.__new__

    def note(cls, step, body, streams, open_step):
        def opening():
            seen.append(step)
            return open_step()

        return build(cls, step, body, streams, opening)

    monkeypatch.setattr(SealedStep, "__new__", note)
    return seen


def test_equal_steps_stay_closed_and_are_counted(tmp_path, monkeypatch) -> None:
    a, b = (write(tmp_path / name, lambda step: (step, step + 1)) for name in "ab")
    seen = opened(monkeypatch)
    verdict = diff(a, b)
    assert verdict.first is None
    assert verdict.stats["steps"] == 8
    assert verdict.stats["values"] == 8 * 6
    assert verdict.stats["last_agreed_step"] == 7
    assert seen == [0]  # one, to count the values


@pytest.mark.parametrize("scalars", [True, False])
def test_a_step_that_parts_is_opened(tmp_path, monkeypatch, scalars) -> None:
    a, b = (
        write(tmp_path / name, lambda step: (step, 1), part=part, scalars=scalars)
        for name, part in (("a", None), ("b", 5))
    )
    seen = opened(monkeypatch)
    first = diff(a, b).first
    assert (first.where.step, first.where.parameter) == (5, "w")
    assert {5} <= set(seen) <= {0, 5, 6}


def test_streams_nobody_seeded_are_told_without_opening_a_step(tmp_path, monkeypatch) -> None:
    a = write(tmp_path / "a", lambda step: (7, step))
    b = write(tmp_path / "b", lambda step: (8, step))
    seen = opened(monkeypatch)
    verdict = diff(a, b)
    assert verdict.first is None
    assert any("python" in item.why for item in verdict.coverage.skipped)
    assert seen == [0]


def test_a_stream_that_parts_is_found_in_a_closed_step(tmp_path) -> None:
    a = write(tmp_path / "a", lambda step: (7, step))
    b = write(tmp_path / "b", lambda step: (7, step + (step >= 4)))
    first = diff(a, b).first
    assert (first.kind, first.where.step) == ("rng", 4)


def test_other_lists_of_names_are_compared_by_name(tmp_path) -> None:
    a = write_run(tmp_path / "a")
    b = write_run(tmp_path / "b")
    assert diff(a, b).first is None
    assert open_run(a).log(0).name_lists() == open_run(b).log(0).name_lists()


def test_a_table_is_found_in_a_payload(tmp_path) -> None:
    log = open_run(write(tmp_path / "a", lambda step: (step, 77))).log(0)
    names = {n: names for n, (link, names) in log.name_lists().items() if link is Link.RNG}
    for step, payload, begin, end in log.payloads(names):
        assert end - begin == 8 + 2 * 8
        assert table_at(payload, begin, names) == {"python": step, "torch": 77}
        assert log.decode(payload).step == step
        assert find_table(memoryview(payload), ()) == (0, 0)
