from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.ledger_campaign import make_step

from everybit.ledger import EndReason, Liveness, RunWriter, open_run
from everybit.ledger.process import ProcessIdentity

if TYPE_CHECKING:
    from pathlib import Path

HERE = ProcessIdentity.current()


def test_this_process_runs() -> None:
    assert HERE.liveness() is Liveness.RUNNING
    assert ProcessIdentity.from_json(HERE.to_json()) == HERE


def test_the_same_number_is_not_the_same_process() -> None:
    assert HERE.start_ticks is not None
    assert replace(HERE, start_ticks=HERE.start_ticks + 1).liveness() is Liveness.GONE
    assert replace(HERE, boot_id="another boot").liveness() is Liveness.GONE


def test_another_machine_or_container_cannot_be_seen() -> None:
    assert replace(HERE, host="0" * 16).liveness() is Liveness.UNSEEN
    assert replace(HERE, pid_namespace="pid:[1]").liveness() is Liveness.UNSEEN
    assert replace(HERE, boot_id="").liveness() is Liveness.UNSEEN


def test_an_ended_process_is_gone_even_before_it_is_reaped() -> None:
    code = "import json; from everybit.ledger.process import ProcessIdentity as P; "
    code += "print(json.dumps(P.current().to_json()), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    import json

    identity = ProcessIdentity.from_json(json.loads(child.stdout.readline()))
    assert identity is not None
    assert identity.liveness() is Liveness.RUNNING
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identity.liveness() is Liveness.GONE  # a zombie
    child.communicate()
    assert identity.liveness() is Liveness.GONE


@pytest.mark.parametrize(
    "change", [{"pid": "1"}, {"pid": 0}, {"pid": None}, {"boot_id": 5}, {"start_ticks": "x"}]
)
def test_a_header_without_a_process_is_none(change: dict[str, object]) -> None:
    assert ProcessIdentity.from_json({**HERE.to_json(), **change}) is None


def test_an_ended_log_is_not_alive(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path)
    writer.step(make_step(0))
    assert open_run(tmp_path).log().alive
    assert open_run(tmp_path).alive
    writer.end(EndReason.CLEAN)
    assert not open_run(tmp_path).log().alive
    assert not open_run(tmp_path).alive
