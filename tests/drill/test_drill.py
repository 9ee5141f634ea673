"""The drill as a whole: executor, results, table, page and command."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from tests.report.page_reader import PageReader

from everybit.api import drill as api_drill
from everybit.api.drill import drill
from everybit.cli import main
from everybit.core.errors import UsageError
from everybit.drill.executor import LocalProcesses
from everybit.drill.plan import plan_builtin
from everybit.drill.results import Results
from everybit.drill.table import table_of, upper_bound
from everybit.drill.trial import Fate, Outcome, Shape, Site, Trial
from everybit.report.drill_html import render_drill_page
from everybit.report.drill_text import render_drill

if TYPE_CHECKING:
    from pathlib import Path


class Told:
    """An executor that answers by a rule, and remembers what it was asked."""

    def __init__(self, fate=lambda trial: Fate.CAUGHT) -> None:
        self.asked: list[str] = []
        self._fate = fate

    def map(self, trials):
        for trial in trials:
            self.asked.append(trial.key)
            clean = trial.site is Site.CLEAN
            fate = Fate.CLEAN if clean else self._fate(trial)
            caught = fate is Fate.CAUGHT
            yield Outcome(
                trial=trial,
                fate=fate,
                rules=("MEM601",) if caught else (),
                steps_after=0 if caught else None,
                placed=True if caught else None,
                exact=caught,
                same_end=caught,
                loss=3.0,
                clean_loss=2.0,
                steps=trial.step if clean else 12,
                seconds=2.0,
                bare_seconds=1.0 if clean else None,
            )


@pytest.fixture
def told(monkeypatch):
    def install(executor):
        def builtin(faults, seed, workers, sites, dtypes, closure):
            plan = plan_builtin(
                faults=faults,
                seed=seed,
                settings={},
                sites=[Site(site) for site in sites] or None,
                dtypes=tuple(dtypes) or ("float32", "bfloat16"),
            )
            return plan, executor

        monkeypatch.setattr(api_drill, "_builtin", builtin)
        return executor

    return install


def test_the_table_counts_what_came(told) -> None:
    told(Told(lambda t: Fate.MISSED if t.shape is Shape.TILE else Fate.CAUGHT))
    result = drill(faults=3, sites=["weight", "loss"])
    table = result.table
    assert table["schema"] == "everybit.drill/1"
    assert table["trials"] == {"asked": 74, "done": 74, "why_not": []}
    tile = next(c for c in table["cells"] if c["shape"] == "tile" and c["dtype"] == "float32")
    assert (tile["trials"], tile["missed"], tile["caught"], tile["loss_change"]) == (3, 3, 0, 0.5)
    assert [c["shape"] for c in table["broken"]] == ["tile", "tile"]
    assert table["false_alarms"]["steps"] == 320
    assert table["cost"]["guarded_over_bare"] == 2.0
    assert not result.ok
    text = render_drill(table, verbose=True)
    assert "MISSED  weight, float32, tile: 3 of 3" in text
    assert "54/60" in text
    assert "6 missed, loss moved by 50.0%" in text


def test_what_lasts_or_is_new_may_be_missed_and_what_does_nothing_is_no_miss(told) -> None:
    told(Told(lambda t: Fate.MISSED if t.shape is Shape.STUCK else Fate.HARMLESS))
    assert drill(faults=1, sites=["activation"]).ok
    told(Told(lambda t: Fate.MISSED))
    assert drill(faults=1, sites=["batch", "rng", "loss"]).ok
    assert not drill(faults=1, sites=["moment"]).ok
    told(Told(lambda t: Fate.NOTED))
    assert not drill(faults=1, sites=["moment"]).ok


def test_it_goes_on_where_it_ended(told, tmp_path: Path) -> None:
    class Ends(Told):
        def map(self, trials):
            for number, outcome in enumerate(super().map(trials)):
                if number == 7:
                    raise KeyboardInterrupt
                yield outcome

    kept = tmp_path / "r.jsonl"
    told(Ends())
    with pytest.raises(KeyboardInterrupt):
        drill(faults=1, sites=["weight"], results=kept)
    whole = told(Told())
    with kept.open("a") as file:
        file.write('{"trial": {"subj')  # it was ended within a line
    result = drill(faults=1, sites=["weight"], results=kept)
    asked = result.table["trials"]["asked"]
    assert len(whole.asked) == asked - 7
    fresh = drill(faults=1, sites=["weight"]).table
    assert result.table == fresh
    again = told(Told())
    assert drill(faults=1, sites=["weight"], results=kept).table == fresh
    assert again.asked == []
    with pytest.raises(UsageError, match="results of another drill"):
        drill(faults=2, sites=["weight"], results=kept)
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(UsageError, match="not the results of a drill"):
        drill(faults=1, results=tmp_path / "x")
    assert (tmp_path / "x").read_text() == "hello\n"


def test_the_order_in_which_outcomes_come_changes_nothing(tmp_path: Path) -> None:
    plan = plan_builtin(faults=2, seed=0, settings={}, sites=[Site.WEIGHT], dtypes=["float32"])
    outcomes = list(Told().map(plan.trials))
    assert table_of(plan, outcomes, target="t") == table_of(plan, outcomes[::-1], target="t")
    with Results(tmp_path / "r", plan) as kept:
        for outcome in outcomes:
            kept.add(outcome)
    assert Results(tmp_path / "r", plan).outcomes == {o.trial.key: o for o in outcomes}


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    assert upper_bound(0, 0) is None
    assert upper_bound(5, 5) == 1.0
    assert upper_bound(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100), rel=1e-6)
    assert upper_bound(2, 50) == pytest.approx(0.12061, abs=1e-4)  # beta(0.95; 3, 48)


def test_the_page_holds_the_map_and_nothing_foreign(told) -> None:
    told(Told(lambda t: Fate.MISSED if t.index else Fate.CAUGHT))
    table = drill(faults=2, sites=["weight"]).table
    table["target"] = "<b>train.py"
    for language in ("en", "zh"):
        read = PageReader(render_drill_page(table, made_at_s=0.0), language)
        assert "1/2" in read.text
        assert "weight" in read.text
        assert not [link for link in read.links if not link.startswith("#")]
        assert "<b>train.py" in read.text  # as text, no tag
    assert ("td", "class", "heat2") in read.attributes


def test_processes_answer_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal
        from everybit.drill.executor import answer_lines
        from everybit.drill.trial import Fate, Outcome

        def run(trial):
            print("to stderr")
            if trial.index == 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            if trial.index == 2:
                raise ValueError("own fault")
            return Outcome(trial=trial, fate=Fate.CAUGHT)

        answer_lines(run)
    """)
    )
    trials = [
        Trial(subject="s", dtype="d", site=Site.WEIGHT, shape=Shape.FLIP, step=1, seed=1, index=i)
        for i in range(5)
    ]
    executor = LocalProcesses(2, command=[sys.executable, str(script)])
    fates = {o.trial.index: o for o in executor.map(trials)}
    assert [fates[i].fate for i in range(5)] == ["caught", "raised", "untried", "caught", "caught"]
    assert "ended with -11" in fates[1].detail
    assert "own fault" in fates[2].detail


def test_the_command_and_its_exit_codes(told, tmp_path: Path, capfd) -> None:
    told(Told())
    page = tmp_path / "p.html"
    options = ["drill", "--faults", "1", "--site", "weight"]
    assert main([*options, "--out", str(page), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["trials"]["asked"] == 28
    assert page.read_text().startswith("<!doctype html>")
    told(Told(lambda t: Fate.MISSED))
    assert main([*options, "-q"]) == 1
    assert capfd.readouterr().out.startswith("MISSED  weight, float32, flip: 1 of 1")
    told(Told(lambda t: Fate.UNTRIED))
    assert main(options) == 3
    assert main(["drill", "--site", "heap"]) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sites": ["heap"]}, "no location 'heap'"),
        ({"dtypes": ["int8"]}, "no dtype 'int8'"),
        ({"faults": 0}, "0 faults"),
        ({"workers": 0}, "0 workers"),
        ({"target": "train.py", "closure": True}, "no closure form"),
    ],
)
def test_bad_options_are_refused_before_any_work(options, said) -> None:
    with pytest.raises(UsageError, match=said):
        drill(**options)
