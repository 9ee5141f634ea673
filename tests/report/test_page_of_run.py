from __future__ import annotations

import math

from tests.report.page_maker import HOSTILE
from tests.report.page_reader import PageReader
from tests.report.run_maker import RunMaker, flip, record

import everybit
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger import EndReason, RunWriter
from everybit.ledger.pause import Pause, begin_pause


def read_page(maker: RunMaker, language: str = "en") -> PageReader:
    return PageReader(everybit.report(maker.path).read_text(encoding="utf-8"), language)


def test_a_hostile_run_folder_is_shown_and_never_obeyed(make_run: RunMaker):
    make_run.attempt()
    clean = read_page(make_run).tags
    writer = RunWriter.open(
        make_run.path,
        rank=0,
        command=["python", HOSTILE, "x" * 300_000],
        environment={HOSTILE: {HOSTILE: HOSTILE}, "deep": {"a": {"b": {"c": [HOSTILE] * 50}}}},
        config={HOSTILE: HOSTILE},
    )
    for step, loss in enumerate((math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324)):
        writer.step(
            record(
                step,
                loss,
                optimizer=HOSTILE,
                scalars={HOSTILE[:60]: loss, "lr": loss, "grad_norm": loss, "scale": loss},
                tables=(TensorTable(link=Link.GRAD, names=(HOSTILE,), digests=(step,)),),
                duration_s=loss,
                guard_s=loss,
                time_s=loss,
            )
        )
    writer.finding(
        rule("MEM601").finding(
            HOSTILE * 1000,
            where=Location(step=2, parameter=HOSTILE, module=HOSTILE, device=HOSTILE),
            evidence={HOSTILE: [HOSTILE], "dtype": "float32", "changes": [{"element": HOSTILE}]},
        )
    )
    writer.coverage(
        Coverage(
            checked=(Checked(what=HOSTILE, count=3),), skipped=(Skipped(what=HOSTILE, why=HOSTILE),)
        ),
        {HOSTILE: HOSTILE},
    )
    writer.end(EndReason.EXCEPTION, 1, HOSTILE)
    writer.close()
    for language in ("en", "zh"):
        read = read_page(make_run, language)
        assert not {"img", "iframe", "form"} & set(read.tags)
        assert read.tags.count("script") == clean.count("script")
        assert not [name for _, name, _ in read.attributes if name.startswith("on")]
        assert "alert(1)" in read.text


def test_a_paused_rank_is_told_with_the_way_on(make_run: RunMaker):
    writer = make_run.attempt(end=None, close=False, coverage=None)
    pause = Pause(
        rank=0,
        step=12,
        rule="MEM601",
        message="m",
        incident="",
        since_s=1.0,
        until_s=2.0,
        attempt=writer.attempt,
    )
    begin_pause(make_run.path, pause)
    text = read_page(make_run).text
    writer.close()
    assert "still going paused" in text
    assert f"everybit release {make_run.path}" in text


def test_a_resumed_run_has_its_attempts_in_rows_and_lines(make_run: RunMaker):
    make_run.killed(range(10), findings=(flip(3),))
    make_run.attempt(range(5, 20))
    read = read_page(make_run)
    assert [line["older"] for line in read.data["timelines-data"]["lines"]] == [True, False]
    assert "Steps 0 to 9, then 5 to 19" in read.text
    assert "dead: no end on record" in read.text


def test_a_missing_rank_is_counted(make_run: RunMaker):
    make_run.attempt(world_size=3)
    assert "no log of 2 ranks" in read_page(make_run).text
