"""`everybit replay`: capsules of a run, computed again."""

from __future__ import annotations

import json

import torch
from tests.guard.capsule.test_capsule import erring_run

import everybit


def test_the_right_bits_clear_this_device(run, tmp_path):
    erring_run(tmp_path / "run", "0.up")
    code, out, err = run("replay", str(tmp_path / "run"), "--json")
    assert code == 0, err
    verdict = json.loads(out)
    (attempt,) = verdict["stats"]["attempts"]
    assert (attempt["module"], attempt["step"], attempt["result"]) == ("0.up", 2, "right")
    code, out, err = run("replay", str(tmp_path / "run"), "--step", "2", "--times", "1")
    assert code == 0
    assert "0.up, step 2: every bit is what the repeats gave" in out + err


def test_a_device_that_errs_alike_is_a_finding(run, tmp_path, monkeypatch):
    erring_run(tmp_path / "run", "0.up")
    right = torch.nn.Linear.forward

    def wrong(self, x):
        out = right(self, x).clone()
        out.detach().view(-1)[3:4].view(torch.int32).bitwise_xor_(1 << 27)
        return out

    monkeypatch.setattr(torch.nn.Linear, "forward", wrong)
    code, out, _ = run("replay", str(tmp_path / "run"), "--json")
    assert code == 1
    (finding,) = json.loads(out)["findings"]
    assert (finding["rule"], finding["where"]["module"]) == ("CMP701", "0.up")
    assert finding["evidence"]["verdict"] == "persistent"


def test_what_could_not_be_computed_is_not_clean(run, tmp_path):
    erring_run(tmp_path / "run", "0")
    code, _, _ = run("replay", str(tmp_path / "run"))
    assert code == 3
    assert everybit.replay(tmp_path / "run", import_code=True).ok


def test_bad_requests_are_one_line(run, tmp_path):
    erring_run(tmp_path / "run", "0.up")
    for args, told in (
        ((str(tmp_path / "none"),), "is no folder"),
        ((str(tmp_path),), "holds no capsule"),
        ((str(tmp_path / "run"), "--step", "9"), "there are some of steps 2"),
        ((str(tmp_path / "run"), "--device", "nothing"), "is not here"),
        ((str(tmp_path / "run"), "--times", "0"), "--times"),
    ):
        code, _, err = run("replay", *args)
        assert code == 2, args
        assert told in err
        assert len(err.strip().splitlines()) == 1
