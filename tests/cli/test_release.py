"""`everybit release`: one line a rank, or one line that says why not."""

from __future__ import annotations

import pytest

from everybit.ledger import Answer, Pause, RunWriter
from everybit.ledger.pause import begin_pause, read_answer


@pytest.fixture
def paused(tmp_path):
    writer = RunWriter.open(tmp_path / "a")
    pause = Pause(
        rank=0, step=7, rule="MEM601", message="", incident="", since_s=0, until_s=1, attempt=0
    )
    begin_pause(tmp_path / "a", pause)
    yield pause
    writer.close()


@pytest.mark.parametrize(
    ("flags", "answer", "told"),
    [((), Answer.GO, "goes on"), (("--stop",), Answer.STOP, "is told to stop")],
)
def test_a_paused_run_is_answered(run, tmp_path, paused, flags, answer, told):
    assert run("release", "a", *flags) == (
        0, "", f"everybit: rank 0, paused at step 7 by MEM601, {told}\n",
    )  # fmt: skip
    assert read_answer(tmp_path / "a", paused) is answer


def test_what_cannot_be_released_is_one_line_and_exit_2(run, tmp_path):
    (tmp_path / "b").mkdir()
    writer = RunWriter.open(tmp_path / "c")
    for name, told in [
        ("b", "b: not a run folder: it has no run.json"),
        ("missing", "missing: no such file or directory"),
        ("c", "c: nothing is paused here: it is running"),
    ]:
        code, out, err = run("release", name)
        assert (code, out) == (2, "")
        assert told in err
        assert err.count("\n") == 1
    writer.close()
