"""The campaigns of `bench` about files at rest, in slices that fit a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import files, files_campaign, fuzz_campaign, harmless_campaign, repair_campaign
from bench.damages import changed_spans
from bench.harmless import KINDS
from bench.subjects import SUBJECTS

from everybit.files.seals import localize

#: Kinds of whole checkpoints that are quick to write.
_QUICK = (
    "masks and legal extremes",
    "all dtypes, packed weights",
    "empty, 0-d, strided, shared, tied",
    "Unicode names",
    "saved without checksums",
    "safetensors",
    "NumPy",
    "token files",
)


@pytest.fixture
def quick(monkeypatch):
    """Leave out the search for damaged words, which takes most of the time."""
    monkeypatch.setattr(localize, "_MAX_SEARCHED", 0)


@pytest.mark.parametrize("subject", [subject.name for subject in SUBJECTS])
def test_every_damage_is_found_and_placed(subject, tmp_path, quick):
    placements = 1 if subject == "DCP" else 3
    result = files_campaign.campaign(placements, 7, subjects=[subject], place=tmp_path)
    cells = result["cells"][subject]
    assert len(cells) >= 5
    assert files_campaign.failures(result) == []


@pytest.mark.parametrize("kind", _QUICK)
def test_nothing_is_found_in_whole_checkpoints(kind, tmp_path):
    result = harmless_campaign.try_kind(KINDS[kind], tmp_path / "kind")
    assert result["findings"] == []
    assert result["sealed"] == "clean"


def test_single_flips_are_put_back(tmp_path):
    result = repair_campaign.try_members(repair_campaign._flip_one, 16, 3, tmp_path)
    assert sum(result["outcomes"].values()) == 16
    assert all(outcome.startswith("restored") for outcome in result["outcomes"])


def test_wider_damage_is_not_repaired_into_something_else(tmp_path):
    result = repair_campaign.try_members(repair_campaign._flip_many, 16, 3, tmp_path)
    assert result["wrong"] == []
    made = repair_campaign.try_members(repair_campaign._imitate, 4, 3, tmp_path)
    # Without a second witness nothing is put back unless that is asked for.
    assert not any(outcome.startswith("restored") for outcome in made["outcomes"])
    assert "changed into something else" not in made["outcomes"]


@pytest.mark.parametrize("beyond", [False, True])
def test_parity_keeps_its_word(beyond, tmp_path):
    result = repair_campaign.try_parity(9, 3, tmp_path, beyond=beyond)
    assert result["wrong"] == []


def test_mutated_inputs(tmp_path):
    result = fuzz_campaign.campaign(20_000, 3, place=tmp_path, parsed_only=0.97)
    assert result["done"] == 20_000
    assert result["failures"] == []


def test_spans_of_a_change():
    assert changed_spans(b"abcd", b"abcd") == []
    assert changed_spans(b"abcdef", b"aXXdeX") == [(1, 3), (5, 6)]
    assert changed_spans(b"abcdef", b"abc") == [(3, 6)]
    assert changed_spans(b"abc", b"abcdef") == [(3, 6)]
    assert changed_spans(b"abc", b"xbcdef") is None


def test_the_table_of_speeds(tmp_path):
    part = files.measure(1, 1, tmp_path, tmp_path / "none", ["everybit: verify, sealed"])
    assert list(part["times"]) == ["read in 1 MiB pieces", "everybit: verify, sealed"]
    assert 0 < part["memory_mib"]["everybit: verify, sealed"] < 200
    assert "everybit: verify, sealed" in files.table({"sizes": [part]})


def test_results_kept_hold_what_must_be_shown():
    # What the repository says of a campaign is what its result file says.
    for path in (Path(files.__file__).parent / "results").glob("*.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "files.json":
            assert files_campaign.failures(result) == []
        if path.name == "repair.json":
            assert repair_campaign.failures(result) == []
        if path.name == "harmless.json":
            assert harmless_campaign.failures(result) == []
        if path.name == "fuzz.json":
            assert result["num_failures"] == 0
