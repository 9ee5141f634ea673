"""Known issues of one side's versions: told, and an explanation only of what they can give."""

from __future__ import annotations

import pytest
from tests.diff.test_runs import plain, run

from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.diff.issues import KnownIssue
from everybit.diff.link_difference import LinkDifference
from everybit.diff.parting import Parting
from everybit.diff.runs import diff_runs

ISSUE = KnownIssue(
    side="B",
    id="conv3d-wrong",
    entry="torch.version",
    library="cudnn",
    version="9.10",
    wrong="the output differs grossly",
    ops=("conv3d",),
    before="2",
    after="3",
)
ENVIRONMENTS = [{"torch": {"version": version}, "argv": {"options": []}} for version in ("2", "3")]


def compared(changes, *, issues=(ISSUE,)):
    a = run(plain(), environment=ENVIRONMENTS[0])
    b = run(plain(changes=changes), name="B", environment=ENVIRONMENTS[1])
    return diff_runs(a, b, issues=issues)


def test_it_stands_in_the_place_of_the_version_that_it_is_an_issue_of() -> None:
    found = compared({2: {Link.GRAD: {"w": 1, "b": 2}}})
    (entry,) = found.explained_by
    assert (entry["entry"], entry["issue"], entry["side"]) == ("torch.version", "conv3d-wrong", "B")
    assert (entry["before"], entry["after"]) == ("2", "3")
    assert "ENV903 conv3d-wrong" in entry["why"]
    assert "cudnn 9.10 of B has a known issue that can give this" in found.first.why


def test_what_is_not_computed_is_not_explained_by_it() -> None:
    for changes in ({2: {Link.BATCH: {"0": 1}}}, {2: {Link.RNG: {"torch": 1}}}):
        found = compared(changes)
        assert [entry.get("issue") for entry in found.explained_by] == [None]
        assert "known issue" not in found.first.why


def test_without_an_issue_the_version_stands_for_itself() -> None:
    found = compared({2: {Link.GRAD: {"w": 1, "b": 2}}}, issues=())
    assert [entry.get("issue") for entry in found.explained_by] == [None]


@pytest.mark.parametrize(
    ("ops", "kind", "link", "ranks", "can"),
    [
        (("conv3d",), "Conv3d", Link.FORWARD, 1, True),
        (("conv3d",), "Linear", Link.FORWARD, 1, False),
        (("conv3d",), "MyBlock", Link.FORWARD, 1, True),
        (("conv3d",), "Linear", Link.GRAD, 1, True),
        (("scaled_dot_product_attention",), "LayerNorm", Link.FORWARD, 1, False),
        (("scaled_dot_product_attention",), "MultiheadAttention", Link.FORWARD, 1, True),
        (("matmul", "linear"), "Linear", Link.FORWARD, 1, True),
        (("batch_norm",), "Conv2d", Link.FORWARD, 1, False),
        (("bidirectional RNN, backward",), "LSTM", Link.FORWARD, 1, True),
        (("all_reduce",), "Linear", Link.GRAD, 1, False),
        (("all_reduce",), "Linear", Link.GRAD, 2, True),
        (("all_reduce",), "Linear", Link.FORWARD, 2, False),
        (("conv3d",), "Conv3d", Link.BATCH, 1, False),
    ],
)
def test_which_values_an_operation_can_give(ops, kind, link, ranks, can) -> None:
    issue = KnownIssue(
        side="B", id="x", entry="torch.version", library="torch", version="2", wrong="y", ops=ops
    )
    table = TensorTable(link=link, names=("0()",), digests=(1,))
    records = tuple(
        StepRecord(step=0, time_s=0.0, duration_s=1.0, guard_s=0.0, tables=(table,))
        for _ in range(2)
    )
    difference = LinkDifference(link=link, differing=(("0()", 1, 2),), num_compared=1)
    parting = Parting(step=0, rank=0, differences=(difference,), records=records)
    configuration = {"modules": {"0": {"class": kind}}}
    assert issue.can_explain(parting, configuration, "0", ranks=ranks) is can
