"""The whole record: never raises, leaves torch as it found it, says what it could not read."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from everybit.diff.environment import compare_environments, uncompared
from everybit.host import SCHEMA, capture_environment
from everybit.host import environment as module


def test_the_record_is_json_with_every_section():
    record = capture_environment(keep_diff=False)
    assert json.loads(json.dumps(record)) == record
    assert record["schema"] == SCHEMA
    assert set(record) >= {
        "python", "host", "process", "argv", "cpu", "gpu", "torch", "cuda", "blas", "threads",
        "determinism", "precision", "seeds", "variables", "packages", "git",
    }  # fmt: skip


def test_two_records_of_one_process_do_not_differ():
    pytest.importorskip("torch")
    a, b = capture_environment(), capture_environment()
    assert compare_environments(a, b) == []
    assert [skip.what for skip in uncompared(a, b) if "gpu" not in skip.what] == []


def test_a_section_that_fails_says_why_and_the_others_stand(monkeypatch):
    def fail():
        raise OSError("no such luck")

    monkeypatch.setattr(module, "read_packages", fail)
    record = capture_environment()
    assert record["packages"] == {"unknown": "OSError: no such luck"}
    assert record["python"]["version"]


def test_torch_state_is_read_and_not_touched():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1234)
    before = torch.get_rng_state()
    torch.use_deterministic_algorithms(True)
    try:
        record = capture_environment()
    finally:
        torch.use_deterministic_algorithms(False)
    assert record["torch"]["version"] == str(torch.__version__)
    assert record["seeds"]["torch"] == 1234
    assert record["determinism"]["deterministic_algorithms"] is True
    assert record["precision"]["default_dtype"] == "torch.float32"
    assert record["threads"]["intra_op"] == torch.get_num_threads()
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.cuda.is_initialized()
    unread = [
        f"{section}.{key}: {value}"
        for section in ("torch", "cuda", "blas", "threads", "determinism", "precision", "seeds")
        for key, value in record[section].items()
        if "unreadable" in str(value)
    ]
    assert unread == []


_THREADS = """
import torch
from everybit.host import capture_environment
capture_environment()
torch.set_num_interop_threads(3)
torch.set_num_threads(1)
print(torch.get_num_interop_threads(), torch.get_num_threads())
"""


def test_thread_counts_can_still_be_set_afterwards():
    pytest.importorskip("torch")
    told = subprocess.run(
        [sys.executable, "-c", _THREADS], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["3", "1"]


_STATE_OF_TORCH = """
import json, sys
from everybit.host import capture_environment
load = len(sys.argv) > 1
record = capture_environment(load_torch=load)
assert load or "torch" not in sys.modules
print(json.dumps([record[name] for name in ("torch", "cuda", "threads", "seeds")]))
"""


def _state_of_torch(*args, **variables):
    told = subprocess.run(
        [sys.executable, "-c", _STATE_OF_TORCH, *args],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    )
    sections = json.loads(told.stdout)
    assert all(section == sections[0] for section in sections)
    return sections[0]


def test_torch_that_is_not_loaded_is_unknown_and_stays_so():
    pytest.importorskip("torch")
    assert _state_of_torch() == {"unknown": "torch is not loaded in this process"}


def test_torch_that_fails_to_load_says_why(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.13: cannot open it')")
    found = _state_of_torch("load", PYTHONPATH=str(tmp_path))
    assert "OSError: libcudart.so.13" in found["unknown"]
