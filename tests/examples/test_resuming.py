"""An example that is killed and gone on with: exact with a Guard's state, and told of without."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.examples.harness import perform
from tests.examples.repertoire import GUARDED, REPERTOIRE
from tests.examples.resuming import (
    NOT_RESUMED,
    Three,
    jobs_of,
    problems_resumed,
    told_by_everybit,
)

ROOT = Path(__file__).parent.parent.parent


def test_ten_steps_a_kill_and_ten_more_are_twenty(tmp_path: Path) -> None:
    (cnn,) = (each for each in REPERTOIRE if each.name == "train_cnn")
    jobs = [*jobs_of(cnn, tmp_path / "held"), *jobs_of(cnn, tmp_path / "alone", held=False)[1:]]
    straight, *done = perform(jobs)
    exact = Three(straight=straight, killed=done[0], resumed=done[1])
    assert problems_resumed(cnn, exact) == []
    told = told_by_everybit(exact)
    assert (told["diff"], told["findings"]) == ("clean", [])
    # Without the Guard's state the loop begins its pass anew: seen from its run folder alone.
    alone = Three(straight=straight, killed=done[2], resumed=done[3])
    assert "other losses, first number 0 behind the checkpoint" in problems_resumed(cnn, alone)
    told = told_by_everybit(alone)
    assert told["first"]["step"] == 10
    (found,) = told["findings"]
    assert found.startswith("DAT407 error: Subset goes on with batch 0 of epoch 0")
    assert found.endswith("checkpoint of step 10: 10 batches are replayed")


def test_the_campaign_ran_every_example_that_can_be_gone_on_with() -> None:
    kept = json.loads((ROOT / "bench" / "results" / "resume.json").read_text())
    assert kept["not_resumed"] == NOT_RESUMED
    ran = {result["example"] for result in kept["results"]}
    assert ran == {each.name for each in REPERTOIRE} - NOT_RESUMED.keys() | {
        name.removesuffix(".py") for name in GUARDED
    }
    # Each verdict is in the docs, by script.
    text = (ROOT / "docs" / "resume.md").read_text()
    table = dict(re.findall(r"^\| `(\w+\.py)` \| ([^|]+) \|", text, re.MULTILINE))
    way = "with the Guard's state"
    exact: dict[str, bool] = {}
    for result in kept["results"]:
        right = result[way]["seeds_exact"] == len(kept["seeds"])
        exact[result["script"]] = exact.get(result["script"], True) and right
    idle = {each.script for each in REPERTOIRE if each.name in NOT_RESUMED} - exact.keys()
    assert table.keys() == exact.keys() | idle
    for script, right in exact.items():
        assert (table[script].split(",")[0].strip() == "exact") is right, script
