"""An error that a damaged file draws is explained, after the untouched traceback."""

from __future__ import annotations

import textwrap

import pytest

import everybit
from everybit.core.config import Config

CASES = {
    "pointer": ("""
        import pickle
        pickle.loads(b"version https://git-lfs.github.com/spec/v1")
     """, "git-LFS pointer", "FIL118"),
    "missing": ("""
        open("ckpt/model.safetensors", "rb")
     """, "ckpt/model.safetensors is not there", "FIL103"),
    "own": ("""
        raise ValueError("too many values to unpack")
     """, "", ""),
    "end": ("""
        raise EOFError
     """, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_it_means_follows_the_traceback_and_goes_into_the_verdict(tmp_path, capfd, name):
    code, words, rule = CASES[name]
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(code))
    outcome = everybit.run(str(script), config=Config(run=tmp_path / "run"))
    assert outcome.exit_code == 1
    err = capfd.readouterr().err
    trace, _, explained = err.partition("\neverybit: ")
    assert trace.startswith("Traceback (most recent call last):\n")
    assert trace.count("Traceback") == 1
    (finding,) = [each for each in outcome.verdict.findings if each.rule == "RUN151"]
    if not words:
        assert not explained
        assert "explained" not in finding.evidence
        return
    assert words in " ".join(explained.split())
    assert rule in explained
    assert words in finding.evidence["explained"]
    assert finding.remedy == finding.evidence["explained"]
    assert words not in finding.message
    assert "[everybit]" not in str(outcome.verdict.to_json())
