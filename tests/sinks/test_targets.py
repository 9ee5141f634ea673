"""The setting `track`, and where each tracker writes."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from everybit.api.run import run
from everybit.core.config import Config
from everybit.core.errors import ConfigError, UsageError
from everybit.sinks import check_sinks
from everybit.sinks.targets import Target, parse_track, place_of


def test_several_with_commas_and_their_places():
    text = " TensorBoard:/tb ,mlflow:http://host:5000/x, wandb ,prometheus:m.prom,"
    assert [(t.tracker, t.place) for t in parse_track(text)] == [
        ("tensorboard", "/tb"),
        ("mlflow", "http://host:5000/x"),
        ("wandb", ""),
        ("prometheus", "m.prom"),
    ]
    assert parse_track(None) == parse_track("") == parse_track(" , ") == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tensorbord", "track: no tracker 'tensorbord'; did you mean 'tensorboard'?"),
        ("xyz", "known trackers: tensorboard, mlflow, wandb, prometheus"),
        ("wandb,wandb:b", "wandb is named twice"),
        ("x" * 500, "no tracker 'xxx"),
    ],
)
def test_what_is_no_tracker_is_told(text, told):
    with pytest.raises(ConfigError) as caught:
        check_sinks(Config(track=text))
    assert told in caught.value.line()
    assert len(caught.value.line()) < 200


def test_a_missing_package_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"track: wandb is not installed; `pip install wandb`"):
        check_sinks(Config(track="prometheus,wandb"))
    # A folder of the tracker's name in the working directory is no package.
    spec = importlib.machinery.ModuleSpec("wandb", None, is_package=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: spec)
    with pytest.raises(UsageError, match="wandb is not installed"):
        check_sinks(Config(track="wandb"))
    check_sinks(Config(track="prometheus"))


def test_places_stay_where_the_job_began_and_ranks_apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = Path("runs/a")
    wanted = {
        ("tensorboard", "", 0): f"{tmp_path}/runs/a/tensorboard",
        ("tensorboard", "tb", 2): f"{tmp_path}/tb-r2",
        ("prometheus", "", 0): f"{tmp_path}/runs/a/everybit.prom",
        ("prometheus", "/x/job.prom", 1): "/x/job-r1.prom",
        ("mlflow", "http://host", 1): "http://host",
    }
    for (tracker, place, rank), found in wanted.items():
        assert place_of(Target(tracker=tracker, place=place), run, rank) == found


def test_a_script_does_not_begin_without_its_tracker(monkeypatch, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('the script began')")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="mlflow is not installed; `pip install mlflow-skinny`"):
        run(str(script), config=Config(run=str(tmp_path / "run"), track="mlflow"))
    assert not (tmp_path / "run").exists()
