"""Callbacks: called with each finding, in the job's thread; an error of theirs is one warning."""

from __future__ import annotations

import threading

import pytest
from tests.sinks.told import drive

from everybit.core.config import Config
from everybit.sinks import open_sinks


def test_each_finding_in_this_thread(tmp_path):
    seen = []
    drive(open_sinks(Config(), tmp_path, 0, callbacks=[lambda f: seen.append((f, _thread()))]))
    ((finding, thread),) = seen
    assert (finding.rule, finding.where.step) == ("MEM601", 7)
    assert thread is threading.main_thread()


def _thread():
    return threading.current_thread()


def test_an_error_is_one_warning_and_the_others_go_on(tmp_path, caplog):
    seen = []

    def broken(finding):
        raise ValueError("no\nsuch")

    sinks = open_sinks(Config(), tmp_path, 0, callbacks=[broken, seen.append])
    drive(sinks)
    drive(sinks)
    assert len(seen) == 2
    (line,) = caplog.messages
    assert line.startswith("everybit: the callback test_an_error_is_one_warning")
    assert line.endswith(".broken failed and is told no more; ValueError: no such")


def test_ctrl_c_in_a_callback_is_the_jobs(tmp_path):
    def interrupted(_finding):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(open_sinks(Config(), tmp_path, 0, callbacks=[interrupted]))
