from __future__ import annotations

import base64
import json
import math
from array import array
from typing import Any

import pytest
from tests.report.page_maker import page, timelines, whole_verdict
from tests.report.page_reader import PageReader
from tests.report.run_maker import RunMaker, flip, record

import everybit
from everybit.core.finding import Location
from everybit.ledger import RunWriter, open_run
from everybit.ledger.facts import StepFacts
from everybit.report.run_summary import iterate_logs, summarise_log
from everybit.report.series import Grid
from everybit.report.timelines import (
    MAX_LINES,
    MAX_NUMBERS,
    QUANTITIES,
    LineKey,
    Timelines,
    plan_timelines,
)
from everybit.report.timelines_data import as_script_text, encode_timelines


def numbers(text: str, *, wide: bool = False) -> list[float]:
    return list(array("d" if wide else "f", base64.b64decode(text)))


def encoded(drawn: Timelines, *findings: Any) -> dict[str, Any]:
    data = encode_timelines(drawn, findings, {finding.id for finding in findings})
    return json.loads(as_script_text(data), parse_constant=pytest.fail)


def chart(data: dict[str, Any], key: str) -> dict[str, Any]:
    return next(each for each in data["charts"] if each["key"] == key)


def test_every_step_is_there_where_there_is_room():
    data = encoded(timelines(300, lambda step: step / 7))
    series = chart(data, "loss")["series"][0]
    assert numbers(series["mean"]) == pytest.approx([step / 7 for step in range(300)])
    assert series["low"] is None
    assert (data["first"], data["width"], data["size"], data["steps"]) == (0, 1, 300, None)


def test_a_spike_and_the_step_of_a_finding_survive_any_folding():
    def loss(step: int) -> float:
        return 50.0 if step == 7777 else 1.0

    finding = flip(step=4321)
    data = encoded(timelines(10_000, loss, width=100, watched=[4321]), finding)
    series = chart(data, "loss")["series"][0]
    assert len(numbers(series["mean"])) == 100
    assert numbers(series["high"])[77] == 50.0
    assert numbers(series["low"])[77] == 1.0
    step, severity, anchor, rule_id, exact = data["findings"][0]
    assert (step, severity, rule_id) == (4321, "error", "MEM601")
    assert anchor == f"f-{finding.id}"
    assert exact[0] == [[0, 1.0]]


def test_values_that_are_not_finite_are_gaps_and_counted():
    def loss(step: int) -> float:
        return math.nan if 10 <= step < 20 else math.inf if step == 25 else 1.0 + step

    drawn = timelines(30, loss)
    series = chart(encoded(drawn), "loss")["series"][0]
    assert series["gaps"] == [*range(10, 20), 25]
    assert series["broken"] == 11
    assert all(math.isnan(numbers(series["mean"])[at]) for at in series["gaps"])
    assert "11 values are not finite: gaps" in PageReader(page(drawn=drawn)).text


def test_gradients_of_a_skipped_update_are_no_gap():
    grid = Grid.over(range(3), 10)
    for skipped in (True, False):
        drawn = Timelines(grid=grid)
        lines = drawn.lines.setdefault(LineKey(rank=0, attempt=0), {})
        for step in range(3):
            values = {"grad_norm": math.inf if step == 1 else 1.0}
            drawn.take(lines, StepFacts(step, 0.0, 1.0, 0.0, "", skipped, False, (), values))
        assert chart(encoded(drawn), "grad_norm")["series"][0]["gaps"] == ([] if skipped else [1])


def test_numbers_beyond_float32_are_kept():
    series = chart(encoded(timelines(3, lambda step: 1e300 * (step + 1))), "loss")["series"][0]
    assert series["wide"] is True
    assert numbers(series["mean"], wide=True) == [1e300, 2e300, 3e300]


def test_scalars_that_nobody_draws_are_left_out():
    drawn = timelines(5, scalars=lambda step: {"lr": 0.1, "custom": 7.0})
    assert drawn.quantities() == ["loss", "lr", "guard"]


def test_every_chart_has_a_table_of_its_numbers():
    drawn = timelines(1000, lambda step: float(step), scalars=lambda step: {"lr": 0.5})
    read = PageReader(page(drawn=drawn))
    assert read.tags.count("caption") == 3
    assert "0 - 41 20.5 (0 to 41)" in read.text
    assert "Loss by step: mean (lowest to highest)" in read.text


def test_markers_go_to_their_findings_rank():
    finding = flip(step=3, rank=1)
    data = encoded(timelines(10, lambda step: 2.0, ranks=2, watched=[3]), finding)
    assert data["findings"][0][4][0] == [[1, 2.0]]


def test_a_finding_with_no_step_has_no_marker():
    nowhere = type(flip()).from_json(
        {**flip().to_json(), "where": Location(parameter="w").to_json()}
    )
    assert encoded(timelines(5), nowhere)["findings"] == []


def write(maker: RunMaker, rank: int, steps: range, world_size: int) -> None:
    writer = RunWriter.open(maker.path, rank=rank, world_size=world_size, command=["t.py"])
    for step in steps:
        writer.step(record(step, float(rank), scalars={"lr": 0.1, "grad_norm": float(step)}))
    writer.close()


def gather(maker: RunMaker) -> Timelines:
    logs = list(iterate_logs(open_run(maker.path)))
    drawn = plan_timelines(logs)
    for log in logs:
        summarise_log(log, drawn)
    return drawn


def test_a_run_of_few_ranks_has_a_line_each(make_run: RunMaker):
    for rank in range(2):
        write(make_run, rank, range(4, 24), 2)
    data = encoded(gather(make_run))
    assert [line["name"] for line in data["lines"]] == [["rank 0"] * 2, ["rank 1"] * 2]
    assert data["first"] == 4
    assert numbers(chart(data, "grad_norm")["series"][1]["mean"]) == [
        float(s) for s in range(4, 24)
    ]


def test_many_ranks_are_one_line_with_a_band(make_run: RunMaker):
    for rank in range(MAX_LINES + 2):
        write(make_run, rank, range(5), MAX_LINES + 2)
    drawn = gather(make_run)
    data = encoded(drawn)
    assert len(data["lines"]) == 1
    series = chart(data, "loss")["series"][0]
    assert numbers(series["low"]) == [0.0] * 5
    assert numbers(series["high"]) == [MAX_LINES + 1.0] * 5
    text = PageReader(page(drawn=drawn)).text
    assert f"mean over {MAX_LINES + 2} ranks" in text


@pytest.mark.parametrize(
    ("num_steps", "num_logs"), [(10_000, 1), (10**6, 1), (10**5, 8), (10, 500)]
)
def test_the_numbers_of_a_page_are_bounded(num_steps, num_logs):
    class Log:
        num_steps = 1
        step_range = range(num_steps)

        def __init__(self, rank: int) -> None:
            self.rank = rank

    drawn = plan_timelines([Log(rank) for rank in range(num_logs)])
    lines = 1 if drawn.merged > 1 else num_logs
    parts = 1 if drawn.grid.width == 1 and drawn.merged == 1 else 3
    assert drawn.grid.size * lines * parts * len(QUANTITIES) <= MAX_NUMBERS * 1.2
    if (num_steps, num_logs) == (10_000, 1):
        assert drawn.grid.width == 1


def test_many_attempts_of_one_rank_are_one_line_too(make_run: RunMaker):
    for attempt in range(MAX_LINES + 1):
        write(make_run, 0, range(attempt, attempt + 5), 1)
    drawn = gather(make_run)
    assert len(drawn.lines) == 1
    assert (
        f"mean over {MAX_LINES + 1} logs of ranks and attempts"
        in PageReader(page(drawn=drawn)).text
    )


def test_the_page_of_a_run_folder_holds_its_scalars(make_run: RunMaker):
    write(make_run, 0, range(12), 1)
    html = everybit.report(make_run.path).read_text()
    data = PageReader(html).data["timelines-data"]
    assert [each["key"] for each in data["charts"]] == ["loss", "grad_norm", "lr", "guard"]


def test_a_page_without_a_step_says_so():
    drawn = Timelines(grid=Grid.over(range(1), 10))
    text = PageReader(page(whole_verdict(), [], drawn)).text
    assert "No step is on record: there is nothing to draw" in text
