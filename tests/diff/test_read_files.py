"""Files that two programs read before their first step: an edited one explains, others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.diff.test_runs import plain, run

from everybit.core.link import Link
from everybit.diff.read_files import with_read_files
from everybit.diff.runs import diff_runs


def sides(files_a, files_b, *, whole=True, changes=None, more=(0, 0)):
    a, b = run(plain()), run(plain(changes=changes or {}), name="B")
    a = replace(a, read_files={"files": files_a, "whole": whole, "more": more[0]})
    return a, replace(b, read_files={"files": files_b, "whole": whole, "more": more[1]})


ALL_GRADIENTS = {0: {Link.GRAD: {"w": 1, "b": 2}}}


def test_an_edited_file_explains_the_first_step() -> None:
    found = diff_runs(*sides({"cfg.json": "aa"}, {"cfg.json": "bb"}, changes=ALL_GRADIENTS))
    assert (found.first.kind, found.first.where.step) == ("config", 0)
    assert found.first.why.startswith("the file cfg.json, read before the first step, holds other")
    (entry,) = found.explained_by
    assert (entry["entry"], entry["before"], entry["after"]) == ("files.cfg.json", "aa", "bb")
    assert (entry["kind"], entry["rank"]) == ("configuration", 1)


def test_the_same_file_explains_nothing() -> None:
    found = diff_runs(*sides({"cfg.json": "aa"}, {"cfg.json": "aa"}, changes=ALL_GRADIENTS))
    assert found.first.kind == "unknown"
    assert found.explained_by == ()


def test_an_edited_file_of_runs_that_agree_is_no_difference_of_values() -> None:
    found = diff_runs(*sides({"cfg.json": "aa"}, {"cfg.json": "bb"}))
    assert (found.first, found.findings, found.explained_by) == (None, (), ())
    assert found.stats["preceding_differences"] == 1


def test_a_file_of_one_run_alone_counts_where_both_are_on_record_from_the_start() -> None:
    files = {"cfg.json": "aa"}, {"cfg.json": "aa", "local.yaml": "cc"}
    found = diff_runs(*sides(*files, changes=ALL_GRADIENTS))
    assert found.first.kind == "config"
    assert (
        "the file local.yaml was read by B before its first step, and not by A" in found.first.why
    )


@pytest.mark.parametrize("how", [{"whole": False}, {"more": (0, 5)}])
def test_a_file_that_the_other_record_may_have_missed_is_no_difference(how) -> None:
    files = {"cfg.json": "aa"}, {"cfg.json": "aa", "local.yaml": "cc"}
    a, b, skipped = with_read_files(*sides(*files, **how))
    assert a.environment["files"] == b.environment["files"] == {"cfg.json": "aa"}
    assert "local.yaml" in skipped[0].why
    assert not skipped[0].promised
    assert diff_runs(*sides(*files, **how)).findings == ()


def test_a_record_without_files_is_told_and_no_difference() -> None:
    a, b = sides({"cfg.json": "aa"}, {})
    found = diff_runs(a, replace(b, read_files=None))
    assert found.findings == ()
    assert [(each.what, each.why) for each in found.coverage.skipped] == [
        ("files read before the first step", "B: not recorded")
    ]
    assert with_read_files(*(replace(each, read_files=None) for each in (a, b)))[2] == []


def test_few_values_under_another_file_are_not_called_corruption() -> None:
    one = {3: {Link.GRAD: {"w": 1}}}
    edited = diff_runs(*sides({"cfg.json": "aa"}, {"cfg.json": "bb"}, changes=one))
    assert edited.first.kind == "unknown"


def test_a_training_and_an_evaluation_are_told_to_be_no_twins() -> None:
    a, b = run(plain()), run(plain(changes=ALL_GRADIENTS), name="B")
    found = diff_runs(replace(a, evaluates=False), replace(b, evaluates=True))
    assert found.first.kind == "config"
    assert found.first.why.startswith("run A trains and run B evaluates")
    assert found.first.certainty == "proof"
    for roles in ((False, False), (True, True), (None, True)):
        same = diff_runs(
            replace(run(plain()), evaluates=roles[0]),
            replace(run(plain(changes=ALL_GRADIENTS), name="B"), evaluates=roles[1]),
        )
        assert "trains" not in same.first.why
