"""Trackers in processes of their own: what arrives, and that nothing of them reaches the job.

TensorBoard and Prometheus's parser are the real ones; MLflow and Weights & Biases are fakes at the
import boundary that write down their calls.
"""

from __future__ import annotations

import json
import math
import os
import random
import stat
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from tests.sinks.told import VERDICT, drive, record_of

from everybit.core.config import Config
from everybit.sinks import open_sinks
from everybit.sinks import tracker as tracker_module
from everybit.sinks.scalars import scalars_of
from everybit.sinks.to_wandb import chosen_mode
from everybit.sinks.tracker import Tracker

if TYPE_CHECKING:
    from pathlib import Path


def test_the_numbers_of_a_step():
    told = scalars_of(record_of(3, 1.0, 2.0, grad_norm=4.0, lr=0.1))
    assert told == {
        "everybit/loss": 1.5,
        "everybit/grad_norm": 4.0,
        "everybit/lr": 0.1,
        "everybit/skipped": 0.0,
        "everybit/step_seconds": 0.11,
        "everybit/guard_overhead": pytest.approx(0.1),
    }
    assert math.isnan(scalars_of(record_of(3, math.inf, -math.inf))["everybit/loss"])


def test_tensorboard_and_prometheus(tmp_path, monkeypatch):
    monkeypatch.setattr(tracker_module, "CLOSE_S", 60.0)
    state = random.getstate()
    sinks = open_sinks(Config(track="tensorboard,prometheus"), tmp_path, 0)
    drive(sinks)
    assert [sink.failure for sink in sinks] == ["", ""]
    assert random.getstate() == state
    _check_events(tmp_path / "tensorboard")
    _check_text(tmp_path / "everybit.prom", tmp_path.name)
    for path in (tmp_path / "trackers").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _check_events(folder: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    losses = events.Scalars("everybit/loss")
    assert [event.step for event in losses] == list(range(20))
    assert losses[3].value == pytest.approx(0.25)
    assert losses[3].wall_time == 1003.0
    assert [e.value for e in events.Scalars("everybit/grad_norm")][5] == 10.0
    assert [(e.step, e.value) for e in events.Scalars("everybit/findings/MEM601")] == [(7, 1.0)]
    (text,) = events.Tensors("everybit/finding")
    assert text.tensor_proto.string_val == [b"MEM601 (error): w changed at step 7"]


def _check_text(path: Path, run: str) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(path.read_text())}
    values = {name: family.samples[0].value for name, family in families.items()}
    assert values["everybit_up"] == 0
    assert values["everybit_step"] == 19
    assert values["everybit_loss"] == pytest.approx(1 / 20)
    (count,) = families["everybit_findings"].samples
    assert (count.name, count.value) == ("everybit_findings_total", 1)
    assert count.labels == {"run": run, "rank": "0", "rule": "MEM601"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert not list(path.parent.glob(".*prom*"))


FAKES = {
    "mlflow": """
        import json, os, types
        def say(*what):
            with open(os.environ["FAKE_CALLS"], "a") as file:
                file.write(json.dumps(what) + "\\n")
        class MlflowClient:
            def __init__(self, tracking_uri=None):
                say("client", tracking_uri)
            def get_experiment_by_name(self, name):
                return None
            def create_experiment(self, name):
                say("experiment", name)
                return "5"
            def create_run(self, experiment_id, tags):
                say("run", experiment_id, tags)
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id="R1"))
            def log_batch(self, run_id, metrics):
                if os.environ.get("FAKE_FAILS"):
                    raise RuntimeError("the server is away")
                assert len(metrics) <= 1000
                say("batch", run_id, [[m.key, m.value, m.timestamp, m.step] for m in metrics])
            def set_tag(self, *what):
                say("tag", *what)
            def set_terminated(self, run_id, status, end_time):
                say("terminated", run_id, status)
    """,
    "mlflow.entities": """
        import collections
        Metric = collections.namedtuple("Metric", "key value timestamp step")
    """,
    "wandb": """
        import json, os
        def say(*what):
            with open(os.environ["FAKE_CALLS"], "a") as file:
                file.write(json.dumps(what) + "\\n")
        def Settings(**settings):
            return settings
        class Run:
            def __init__(self):
                self.summary = {}
            def log(self, values, step):
                say("log", values, step)
            def finish(self, exit_code):
                say("finish", exit_code, self.summary)
        def init(**settings):
            say("init", settings)
            print("noise", flush=True)
            return Run()
    """,
}


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Put the fakes where they are imported from; returns what they were called with."""
    for name, code in FAKES.items():
        folder = tmp_path / "fakes" / name.replace(".", "/")
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(tmp_path / "fakes")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fakes"))
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(tracker_module, "CLOSE_S", 60.0)
    for name in list(os.environ):
        if name.startswith(("WANDB_", "MLFLOW_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r").mkdir()
    return lambda: [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]


def test_mlflow(calls, tmp_path, monkeypatch):
    (sink,) = sinks = open_sinks(Config(track="mlflow:http://host:5000"), tmp_path / "r", 2)
    drive(sinks)
    assert sink.failure == ""
    told = calls()
    assert told[:3] == [
        ["client", "http://host:5000"],
        ["experiment", "everybit"],
        ["run", "5", {"mlflow.runName": "r-r2", "everybit.run": str(tmp_path / "r")}],
    ]
    metrics = [metric for call in told if call[0] == "batch" for metric in call[2]]
    assert ["everybit/loss", 0.25, 1003000, 3] in metrics
    assert [m[1:2] + m[3:] for m in metrics if m[0] == "everybit/findings/MEM601"] == [[1.0, 7]]
    assert ["tag", "R1", "everybit.MEM601", "w changed at step 7 (step 7)"] in told
    assert told[-1] == ["terminated", "R1", "FINISHED"]


def test_a_run_of_the_users_own_is_joined_and_left_open(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "MINE")
    drive(open_sinks(Config(track="mlflow"), tmp_path / "r", 0))
    told = calls()
    assert {call[1] for call in told if call[0] == "batch"} == {"MINE"}
    assert not [call for call in told if call[0] in ("run", "terminated")]


def test_wandb_is_offline_unless_asked(calls, tmp_path, monkeypatch, capfd):
    (sink,) = sinks = open_sinks(Config(track="wandb:mine"), tmp_path / "r", 0)
    drive(sinks)
    assert sink.failure == ""
    told = calls()
    settings = told[0][1]
    assert (settings["project"], settings["name"], settings["mode"]) == ("mine", "r", "offline")
    assert settings["dir"] == str(tmp_path / "r")
    assert ["log", {"everybit/findings/MEM601": 1.0}, 7] in told
    steps = [call[2] for call in told if call[0] == "log"]
    assert steps == sorted(steps)  # it takes no step back
    assert told[-1][0:2] == ["finish", 0]
    assert told[-1][2]["everybit/status"] == "clean"
    assert capfd.readouterr().out == ""  # its noise is not the job's


def test_the_users_own_settings_of_wandb(calls, tmp_path, monkeypatch):
    assert chosen_mode() == "offline"
    (tmp_path / ".config" / "wandb").mkdir(parents=True)
    settings = tmp_path / ".config" / "wandb" / "settings"
    settings.write_text("broken")
    assert chosen_mode() == "offline"
    settings.write_text("[default]\nmode = online\n")
    assert chosen_mode() == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert chosen_mode() == "disabled"


def test_a_tracker_that_fails_is_one_warning_with_its_last_words(
    calls, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("FAKE_FAILS", "1")
    sinks = open_sinks(Config(track="mlflow,wandb"), tmp_path / "r", 0)
    drive(sinks)
    (line,) = caplog.messages
    assert line.startswith("everybit: mlflow failed and is told no more; RuntimeError: ")
    assert "RuntimeError: the server is away" in line
    assert "trackers/mlflow-r0.txt" in line
    assert calls()[-1][0] == "finish"


def test_one_that_dies_while_the_run_goes_on(tmp_path, caplog):
    (sink,) = open_sinks(Config(track="prometheus:" + str(tmp_path / "no" / "x.prom")), tmp_path, 0)
    deadline = time.monotonic() + 60
    while not sink.failure and time.monotonic() < deadline:
        sink.step(record_of(1, 1.0))
        time.sleep(0.01)
    sink.close(VERDICT)
    assert "FileNotFoundError" in sink.failure
    assert len(caplog.messages) == 1


def test_one_that_hangs_never_holds_up_the_job(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tracker_module, "_START", "import time; time.sleep(30)")
    monkeypatch.setattr(tracker_module, "MAX_WAITING_BYTES", 100_000)
    monkeypatch.setattr(tracker_module, "CLOSE_S", 0.3)
    tracker = Tracker("prometheus", "x", folder=tmp_path, rank=0)
    began = time.monotonic()
    for step in range(5000):
        tracker.step(record_of(step, 1.0))
    tracker.close(VERDICT)
    assert time.monotonic() - began < 10
    assert tracker.dropped > 1000
    (line,) = caplog.messages
    assert line.startswith("everybit: prometheus is still at work after 0.3 s and goes on by")
    tracker._process.kill()
    tracker._process.wait()


def test_where_the_job_is_killed_the_tracker_finishes(tmp_path):
    job = subprocess.Popen(
        [sys.executable, "-c", f"""
import sys, time
from pathlib import Path
from everybit.core.config import Config
from everybit.core.observation import StepRecord
from everybit.sinks import open_sinks
(sink,) = open_sinks(Config(track="prometheus"), Path({str(tmp_path)!r}), 0)
sink.step(StepRecord(step=41, time_s=1, duration_s=1, guard_s=0, losses=(2.0,)))
print("told", flush=True)
time.sleep(60)
"""],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout.readline() == "told\n"
    job.kill()
    job.wait()
    path = tmp_path / "everybit.prom"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text = path.read_text() if path.exists() else ""
        if "everybit_up{" in text and text.split("everybit_up{")[1].split("\n")[0].endswith(" 0"):
            break
        time.sleep(0.05)
    assert "everybit_step{" in text
    assert text.split("everybit_step{")[1].split("\n")[0].endswith(" 41")


def test_a_line_that_a_signals_handler_broke_into_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(tracker_module, "CLOSE_S", 60.0)
    tracker = Tracker("prometheus", str(tmp_path / "x.prom"), folder=tmp_path, rank=0)
    for line in (b'{"kind": "step", "st', b"5", b'{"a": 1}', b"\xff", b""):
        os.write(tracker._pipe.fileno(), line + b"\n")
    tracker.step(record_of(3, 1.0))
    tracker.close(VERDICT)
    assert "everybit_step{" in (tmp_path / "x.prom").read_text()
