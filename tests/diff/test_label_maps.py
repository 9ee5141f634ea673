"""Label maps of two runs, and samples that part behind a first value that is no more than noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api.test_attempts import NUMBERS, train
from tests.diff.test_runs import plain, run
from tests.diff.test_traced import samples

import everybit
from everybit.core.link import Link
from everybit.diff.runs import diff_runs

if TYPE_CHECKING:
    from pathlib import Path

MAP = {"train.class_to_idx": {"cat": 0, "dog": 1}}
SWAPPED = {"train.class_to_idx": {"cat": 1, "dog": 0}}


def two(link: Link, name: str, other: dict[str, dict[str, int]]):
    one = run(plain(), label_maps=MAP)
    return diff_runs(one, run(plain(changes={2: {link: {name: 9}}}), name="B", label_maps=other))


def test_a_label_map_explains_a_loss_and_no_gradient() -> None:
    found = two(Link.LOSS, "0", SWAPPED)
    assert (found.first.kind, found.first.where.link) == ("data", "loss")
    assert "train.class_to_idx has 'cat' as 0 in A and as 1 in B" in found.first.why
    (entry,) = found.explained_by
    assert (entry["entry"], entry["kind"]) == ("labels.train.class_to_idx", "data")
    # It is among the explanations there too, and does not decide.
    found = two(Link.GRAD, "w", SWAPPED)
    assert found.first.kind != "data"
    # A class more, and a loader of one run, are no contradiction.
    for other in ({"train.class_to_idx": {"cat": 0, "dog": 1, "owl": 2}}, {"test.stoi": {"a": 1}}):
        found = two(Link.LOSS, "0", other)
        assert found.first.kind == "unknown"
        assert not found.explained_by


def test_a_batch_that_differs_names_the_label_map(tmp_path: Path) -> None:
    train(tmp_path / "a", 4)
    train(tmp_path / "b", 4, numbers={"cat": 2, "dog": 1, "owl": 0})
    train(tmp_path / "c", 4, numbers=NUMBERS | {"yak": 3, "zebu": 4, "worm": 5})
    verdict = everybit.diff(tmp_path / "a", tmp_path / "b")
    assert verdict.first is not None
    assert verdict.first.kind == "data"
    assert "the label maps differ" in verdict.first.why
    assert "class_to_idx has 'cat' as 0 in A and as 2 in B" in verdict.first.why
    # More classes under later numbers are no contradiction: these runs are equal.
    assert everybit.diff(tmp_path / "a", tmp_path / "c").ok


def test_samples_that_part_behind_noise_are_told() -> None:
    changes = {step: {Link.GRAD: {"w": 5}} for step in range(6)}

    def side(swapped: bool, changes=None):
        def delivered():
            for step in range(6):
                indices = (90, 9) if swapped and step == 4 else (2 * step, 2 * step + 1)
                yield samples((0, 0), indices, step=step)

        return plain(changes=changes, samples=delivered)

    found = diff_runs(run(side(False)), run(side(True, changes), name="B"))
    assert found.first.where.step == 0
    assert found.findings[0].evidence["samples_part_later"]["step"] == 4
    assert "later, at step 4, the samples part too" in found.first.why
    found = diff_runs(run(side(False)), run(side(False, changes), name="B"))
    assert "samples_part_later" not in found.findings[0].evidence
