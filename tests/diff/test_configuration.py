"""Configurations side by side: what is told, and what goes without saying."""

from __future__ import annotations

from everybit.diff.configuration import compare_configurations


def _with(name: str, **settings: object) -> dict[str, object]:
    return {"optimizers": {name: {"class": name, "groups": {"0": settings}}}}


def test_another_optimizer_is_told_by_its_class_and_not_by_each_setting() -> None:
    found = compare_configurations(_with("AdamW", lr=0.1, eps=1e-8), _with("SGD", lr=0.2))
    assert [(each.entry, each.before, each.after) for each in found] == [
        ("configuration.optimizers.AdamW.class", "AdamW", None),
        ("configuration.optimizers.SGD.class", None, "SGD"),
    ]


def test_the_mode_of_the_model_itself_has_a_name() -> None:
    sides = [{"modes": {"": mode}} for mode in ("eval", "train")]
    (found,) = compare_configurations(*sides)
    assert (found.entry, found.before, found.after) == ("configuration.modes", "eval", "train")


def test_settings_of_an_optimizer_that_both_have_are_all_told() -> None:
    found = compare_configurations(_with("SGD", lr=0.1), _with("SGD", lr=0.2, nesterov=True))
    assert [each.entry.rpartition(".")[2] for each in found] == ["lr", "nesterov"]


def test_without_a_class_on_record_nothing_is_left_out() -> None:
    sides = [{"optimizers": {name: {"lr": 0.1}}} for name in ("AdamW", "SGD")]
    assert len(compare_configurations(*sides)) == 2
