"""`everybit env` and `everybit env diff`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from everybit.ledger import RunWriter


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Write a record made by this process; returns a function that writes a changed copy."""
    from everybit.api.env import env

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    original = env(of_job=False)
    # With no known issue, whatever this machine has.
    original |= {"blas": {"mkl": "2026.0"}, "torch": {"version": "99.0"}}
    original["variables"] = {"OMP_NUM_THREADS": "2"}  # Not what other tests have left.

    def write(name, **changes):
        path = tmp_path / name
        path.write_text(json.dumps({**original, **changes}))
        return str(path)

    return write


def test_the_record_as_text_json_and_file(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "hush")
    monkeypatch.setenv("MY_CHOICE", "seven")
    code, out, err = run("env")
    assert (code, err) == (0, "")
    assert "python\n  implementation" in out
    assert "hush" not in out
    assert "MY_CHOICE" not in out
    data = json.loads(run("env", "--json", "--variable", "MY_CHOICE")[1])
    assert data["variables"]["MY_CHOICE"] == "seven"
    code, out, err = run("env", "--out", str(tmp_path / "env.json"))
    assert (code, out) == (0, "")
    assert json.loads((tmp_path / "env.json").read_text())["schema"] == "everybit.environment/1"


def test_equal_records_are_clean(run, record):
    code, out, _ = run("env", "diff", record("a", captured_at=1), record("b"), "--json")
    data = json.loads(out)
    assert data["findings"] == []
    assert data["coverage"]["checked"][0]["count"] > 50
    # Without nvidia-ml-py the GPUs cannot be compared, and that is said.
    assert code == (3 if data["coverage"]["skipped"] else 0)


def test_a_difference_has_a_rule_a_reason_and_is_a_warning(run, record):
    a, b = record("a", variables={"OMP_NUM_THREADS": "1"}), record("b", gpu={"absent": "none"})
    record("a", gpu={"absent": "none"}, variables={"OMP_NUM_THREADS": "1"})
    code, out, _ = run("env", "diff", a, b, "--json")
    (finding,) = [f for f in json.loads(out)["findings"] if "variables" in f["where"]["entry"]]
    assert code == 0
    assert finding["rule"] == "ENV905"
    assert "sums in another order" in finding["message"]
    assert finding["where"] == {"link": "environment", "entry": "variables.OMP_NUM_THREADS"}
    assert (finding["evidence"]["before"], finding["evidence"]["after"]) == ("1", "2")
    assert run("env", "diff", a, b, "--fail-on", "warning")[0] == 1


def test_an_unreadable_section_is_inconclusive(run, record):
    a = record("a", threads={"unknown": "torch is not loaded in this process"})
    code, out, _ = run("env", "diff", a, record("b"), "--json")
    assert code == 3
    assert json.loads(out)["status"] == "inconclusive"


def test_a_run_folder_is_read_through_the_ledger(run, record, tmp_path):
    path = record("a", gpu={"absent": "none"})
    environment = json.loads((tmp_path / "a").read_text())
    environment["threads"] = {**environment["threads"], "intra_op": 99}
    writer = RunWriter.open(tmp_path / "run", environment=environment, command=[], config={})
    writer.close()
    code, out, _ = run("env", "diff", path, str(tmp_path / "run"), "--json")
    assert code == 0
    assert [f["where"]["entry"] for f in json.loads(out)["findings"]] == ["threads.intra_op"]


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b"\xff\xfe", b'{"schema": "other/1"}', b"[" * 100_000]
)
def test_what_is_no_record_is_one_line(run, record, tmp_path, content):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    code, out, err = run("env", "diff", record("a"), str(tmp_path / "bad"))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert str(tmp_path / "bad") in err


def test_bad_requests(run):
    assert "the folder it should lie in" in run("env", "--out", "no/where.json")[2]
    assert "come after `diff`" in run("env", "--json", "diff", "a", "b")[2]
    assert "Did you mean 'diff'?" in run("env", "dif", "a", "b")[2]


def test_known_issues_of_a_record_are_told_with_their_source(run, record):
    old = record("a", gpu={"absent": "none"}, blas={"mkl": "2024.2-Product"}, threads={})
    code, out, _ = run("env", "check", old, "--json")
    findings = json.loads(out)["findings"]
    assert code == 0
    assert {finding["rule"] for finding in findings} == {"ENV903"}
    assert "mkl-first-call-low-accuracy" in {f["evidence"]["issue"] for f in findings}
    assert all("https://" in finding["remedy"] for finding in findings)
    assert run("env", "check", old, "--fail-on", "warning")[0] == 1
    new = record("b", gpu={"absent": "none"}, blas={"mkl": "2026.0"}, torch={"version": "99.0"})
    assert run("env", "check", new)[0] == 0
    assert json.loads(run("env", "check", new, "--json")[1])["findings"] == []


def test_a_known_issue_of_one_side_is_told_by_the_comparison(run, record):
    a = record("a", gpu={"absent": "none"}, threads={}, blas={"mkl": "2024.2-Product"})
    b = record("b", gpu={"absent": "none"}, threads={}, blas={"mkl": "2026.0-Product"})
    found = json.loads(run("env", "diff", a, b, "--json")[1])["findings"]
    assert [f["evidence"]["side"] for f in found if f["rule"] == "ENV903"] == ["A"]
    # Both sides alike: no difference, and `env check` tells it.
    assert json.loads(run("env", "diff", a, a, "--json")[1])["findings"] == []


def test_a_check_that_could_not_read_a_section_is_inconclusive(run, record):
    path = record("a", gpu={"absent": "none"}, packages={"unknown": "no"})
    assert run("env", "check", path)[0] == 3


def test_the_lock_is_printed_and_written(run, tmp_path):
    code, out, err = run("env", "lock")
    assert (code, err) == (0, "")
    assert "\nnumpy==" in out
    code, printed, _ = run("env", "lock", "--out", str(tmp_path / "lock.txt"))
    assert (code, printed) == (0, "")
    assert (tmp_path / "lock.txt").read_text() == out
    code, out, err = run("env", "lock", "--out", "no/where.txt")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_env_works_without_torch(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None\n")
    told = subprocess.run(
        [sys.executable, "-m", "everybit", "env", "--json"],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    data = json.loads(told.stdout)
    assert "torch" in str(data["torch"])
    assert next(iter(data["torch"])) in ("absent", "unknown")
    assert data["packages"]
