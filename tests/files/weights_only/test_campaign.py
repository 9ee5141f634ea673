"""Two thousand mutated files: what the model accepts, torch accepts."""

import json

from bench.weights_only_campaign import campaign, merge, run_child, section
from bench.weights_only_child import make_file
from bench.weights_only_classes import REASONS, reason_of
from bench.weights_only_shapes import make_bases


def test_two_thousand_files(tmp_path):
    out = tmp_path / "result.json"
    result = campaign(2000, 5, out=out, place=tmp_path)
    assert result["done"] == 2000
    assert result["broken"] == []
    assert result["died"] == []
    assert result["unexplained"] == {}
    # It would prove nothing if the model refused all of them.
    assert result["counts"]["model accepts"] > 100
    assert result["refused_though_accepted"] < result["counts"]["torch accepts"] / 2
    assert json.loads(out.read_text()) == result
    page = section(merge([result]))
    assert "Accepted by the model and refused by torch: 0" in page


def test_a_file_follows_from_its_seed_and_number():
    first, second = make_bases(), make_bases()
    for number in range(40):
        assert make_file(first, 1, number)[1] == make_file(second, 1, number)[1]
    assert make_file(first, 1, 3)[1] != make_file(first, 2, 3)[1]


def test_a_child_that_dies_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.weights_only_campaign.sys.executable", "false")
    told = run_child(tmp_path, 1, 7, 10)
    assert told["next"] == 8
    assert told["died"][0]["number"] == 7


def test_every_class_is_explained():
    assert reason_of("no such refusal") == ""
    assert len({reason.name for reason in REASONS}) == len(REASONS)
    assert all(reason.why and reason.starts for reason in REASONS)
