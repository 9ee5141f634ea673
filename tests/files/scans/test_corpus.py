"""The whole corpus against `everybit.scan`: all hostile files flagged, no benign one an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.scan_corpus import Sample, corpus, write_corpus
from bench.scan_corpus.sample import CANARY

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The corpus, written, and what a scan of it said."""

    samples: tuple[Sample, ...]
    folder: Path
    told: dict[str, Any]
    imported: list[str]
    printed: str
    left: list[str]


def _run(module: str, jobs: list[dict[str, str]], place: Path) -> tuple[Any, str, list[str]]:
    """Run a module of the corpus in an empty folder; returns its result, output and what is left.

    A payload that ran would print, or leave a file there.
    """
    work, listed, out = place / "work", place / "jobs.json", place / "out.json"
    work.mkdir()
    listed.write_text(json.dumps(jobs), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", module, str(listed), str(out)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(out.read_text(encoding="utf-8"))
    return result, done.stdout + done.stderr, [path.name for path in work.iterdir()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("corpus")
    samples = corpus()
    write_corpus(folder, samples)
    jobs = [{"name": sample.name, "path": str(folder / sample.name)} for sample in samples]
    place = tmp_path_factory.mktemp("watch")
    result, printed, left = _run("bench.scan_corpus.watching", jobs, place)
    return Written(
        samples=samples,
        folder=folder,
        told=result["files"],
        imported=result["imported"],
        printed=printed,
        left=left,
    )


def _rules(told: dict[str, Any], *levels: str) -> set[str]:
    return {rule for rule, severity, _ in told["findings"] if severity in levels}


def test_the_corpus_is_as_large_as_promised(written):
    hostile = [sample for sample in written.samples if sample.hostile]
    assert len(hostile) >= 150
    assert len(written.samples) - len(hostile) >= 60
    assert len({sample.name for sample in written.samples}) == len(written.samples)
    published = Counter(sample.source.split()[0] for sample in hostile)
    assert {"picklescan", "modelscan", "fickling", "CVE-2025-32434"} <= set(published)
    assert sum(sample.source != "own" for sample in hostile) >= 150


def test_every_hostile_file_is_flagged(written):
    clean = [
        sample.name
        for sample in written.samples
        if sample.hostile and not _rules(written.told[sample.name], "warning", "error")
    ]
    assert clean == []


def test_every_hostile_file_is_told_by_its_rule(written):
    wrong = {}
    for sample in written.samples:
        if not sample.hostile:
            continue
        told = written.told[sample.name]
        # Code that would run is an error; what cannot be known is at least a warning.
        surely = sample.expect == ("PKL201",)
        found = _rules(told, "error") if surely else _rules(told, "warning", "error")
        if not found & set(sample.expect):
            wrong[sample.name] = (sample.expect, told["findings"])
    assert wrong == {}


def test_no_benign_file_is_an_error(written):
    errors = {
        sample.name: written.told[sample.name]["findings"]
        for sample in written.samples
        if not sample.hostile and _rules(written.told[sample.name], "error")
    }
    assert errors == {}


def test_benign_files_are_told_as_expected(written):
    wrong = {}
    for sample in written.samples:
        if sample.hostile:
            continue
        told = written.told[sample.name]
        found = _rules(told, "warning", "error")
        wanted = {rule for rule in sample.expect if not rule.endswith("?")}
        allowed = {rule.rstrip("?") for rule in sample.expect}
        # What is not known to be safe is refused by `weights_only` as well.
        allowed |= {"PKL204"} if allowed else set()
        if not wanted <= found or not found <= allowed:
            wrong[sample.name] = (sample.expect, told["findings"])
    assert wrong == {}


def test_nothing_is_executed(written):
    heard = {name: told["heard"] for name, told in written.told.items() if told["heard"]}
    assert heard == {}
    assert CANARY not in written.printed
    assert "The Zen of Python" not in written.printed
    assert written.left == []
    tops = {name.partition(".")[0] for name in written.imported}
    named = {"this", "torch", "sympy", "pip", "pty", "idlelib", "lib2to3", "distutils", "venv"}
    assert not tops & named


def test_the_real_loaders_run_the_payloads(written, tmp_path):
    # One file of every class here; `python -m bench.scan` tries them all.
    first: dict[str, Sample] = {}
    for sample in written.samples:
        if sample.hostile and sample.loader:
            first.setdefault(sample.kind, sample)
    jobs = [
        {
            "name": sample.name,
            "path": str(written.folder / sample.name),
            "loader": sample.loader,
            "proof": sample.proof,
            "needs": sample.needs,
        }
        for sample in first.values()
    ]
    told, _, left = _run("bench.scan_corpus.canary", jobs, tmp_path)
    assert left == []
    outcomes = Counter(answer["ran"] for answer in told.values())
    dead = {name: answer for name, answer in told.items() if answer["ran"] == "no"}
    if sys.version_info[:2] == (3, 11):
        assert dead == {}
    # Other versions of Python lack some of the functions.
    assert outcomes["yes"] >= 0.8 * len(jobs)
