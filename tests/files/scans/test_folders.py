"""What lies in a folder and is no file: it was not checked, and a model's name promises one."""

from __future__ import annotations

import os
import socket

import pytest

from everybit import scan

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing to load")
    return tmp_path


def test_a_pipe_or_a_device_under_a_models_name_was_not_checked(folder):
    os.mkfifo(folder / "model.pt")
    (folder / "weights.pth").symlink_to("/dev/zero")
    verdict = scan(folder)
    told = {skip.what: skip.promised for skip in verdict.coverage.skipped}
    assert told == {"model.pt": True, "weights.pth": True}
    assert str(verdict.status) == "inconclusive"


def test_other_pipes_and_links_that_lead_nowhere_are_told_and_promise_nothing(folder):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "s"))
        (folder / "gone.pt").symlink_to("nowhere")
        verdict = scan(folder)
    assert {skip.promised for skip in verdict.coverage.skipped} == {False}
    assert len(verdict.coverage.skipped) == 2
    assert str(verdict.status) == "clean"
