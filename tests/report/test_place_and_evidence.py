"""A place says which value of a parameter it is of; evidence is cut at an element."""

from __future__ import annotations

import json

import pytest

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.verdict import Verdict
from everybit.report.evidence import facts_in
from everybit.report.place import describe_place
from everybit.report.text import render_verdict
from everybit.report.two_parts import draw_explained


@pytest.mark.parametrize(
    ("link", "told"),
    [
        (Link.INIT, "step 0, initial value of conv.weight"),
        (Link.LOAD, "step 0, loaded value of conv.weight"),
        (Link.GRAD, "step 0, gradient of conv.weight"),
        (Link.REDUCE, "step 0, reduced gradient of conv.weight"),
        (Link.UPDATE, "step 0, update of conv.weight"),
        (Link.STATE, "step 0, conv.weight"),
        (None, "step 0, conv.weight"),
    ],
)
def test_a_parameters_place_says_which_of_its_values(link, told) -> None:
    assert describe_place(Location(step=0, link=link, parameter="conv.weight")) == told


def test_optimizer_state_and_places_without_a_parameter() -> None:
    state = Location(link=Link.UPDATE, parameter="w", tensor="exp_avg", optimizer="AdamW")
    assert describe_place(state) == "optimizer AdamW, update of w (exp_avg)"
    assert describe_place(Location(link=Link.GRAD, module="conv")) == "link grad, module conv"


def told(value, limit: int = 160) -> str:
    ((_, text),) = facts_in({"it": value}, limit)
    return text


def test_short_mappings_and_lists_are_whole() -> None:
    value = {"step": 3, "link": "loss", "of": [1, {"a": None}]}
    assert json.loads(told(value)) == value
    assert told([1, 2, 3]) == "1, 2, 3"
    assert told([{"a": 1}]) == '[{"a": 1}]'
    assert (told({}), told([]), told([[]])) == ("{}", "", "[[]]")


def test_long_ones_end_behind_an_element_and_say_how_many_more() -> None:
    history = [{"device": f"cuda:{number}", "when": "2026-11-30"} for number in range(9)]
    text = told(history)
    assert text.endswith(" and 6 more]")
    assert len(text) <= 160
    assert json.loads(text.replace(" and 6 more", "")) == history[:3]
    names = told([f"blocks.{number}.weight" for number in range(100)])
    assert names.startswith("blocks.0.weight, blocks.1.weight")
    assert names.endswith("weight and 92 more")
    mapping = told({f"key{number}": number for number in range(50)}, 60)
    assert mapping == '{"key0": 0, "key1": 1, "key2": 2, "key3": 3 and 46 more}'


def test_a_long_element_is_cut_within_itself() -> None:
    inner = {f"name{number}": "x" * 20 for number in range(20)}
    text = told({"device": inner, "other": 1})
    assert text.startswith('{"device": {"name0": "' + "x" * 20 + '", ')
    assert text.endswith(" more} and 1 more}")
    assert told(["x" * 400]).count("...") == 1


def test_what_has_no_json_form_is_told_all_the_same() -> None:
    loop: list = []
    loop.append(loop)
    assert told({"a": object}).startswith('{"a": "<class')
    assert told(loop)


ITEM = {
    "entry": "code.script",
    "before": "aa",
    "after": "bb",
    "kind": "code",
    "files": ["/a/train.py", "/b/train.py"],
    "lines": ["@@ -1 +1 @@", "-lr = 0.1", "+lr = \x1b[31m<0.2>"],
}


def test_changed_lines_stand_in_the_page_of_two_runs_too() -> None:
    page = str(draw_explained([ITEM, {"entry": "threads.intra_op", "before": 1, "after": 2}]))
    assert page.count("<pre") == 1
    assert "-lr = 0.1\n+lr = \\x1b[31m&lt;0.2&gt;" in page


def test_changed_lines_stand_behind_their_entry() -> None:
    verdict = Verdict(
        command="diff",
        target=("a", "b"),
        has_first=True,
        first=Divergence(where=Location(step=0), kind=DivergenceKind.CONFIG, why="x"),
        explained_by=(ITEM,),
    )
    text = render_verdict(verdict, color=False, verbose=False, width=100, encoding="ascii")
    assert "files: /a/train.py and /b/train.py" in " ".join(text.split())
    assert "               -lr = 0.1\n" in text
    assert "\x1b" not in text
