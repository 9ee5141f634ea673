from __future__ import annotations

import base64
import hashlib
import html
import math
import re

import pytest
from tests.report.page_maker import HOSTILE, log, page, timelines, whole_verdict
from tests.report.page_reader import PageReader
from tests.report.run_maker import flip

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.report.findings_html import MAX_CARDS, MAX_ROWS
from everybit.report.run_summary import State
from everybit.report.timelines_data import MAX_MARKERS


def squeezed(words: str) -> str:
    return re.sub(r"[`\s]", "", words)


def test_every_finding_is_there_with_rule_remedy_and_explanation():
    verdict = whole_verdict()
    read = PageReader(page(verdict))
    for finding in verdict.findings:
        assert f"f-{finding.id}" in read.ids
        assert f"{finding.rule} {finding.slug}" in read.text
        assert finding.message in read.text
        assert squeezed(finding.remedy) in squeezed(read.text)
        assert f"About {finding.rule}" in read.text
        assert rule(finding.rule).title.rstrip(".") in read.text
    for heading in ("What", "Why it matters", "Evidence", "Known false alarms"):
        assert heading in read.texts


def test_coverage_cost_environment_and_command_are_there():
    text = PageReader(page(whole_verdict())).text
    for piece in (
        "1,234 tensors at rest",
        "gradients promised compiled region",
        "forward not in this release",
        "1.00 %",
        "python train.py",
        "python v: 3.11 v 3.11",
        "everybit run --on-finding heal train.py",
        "everybit diff runs/a OTHER_RUN",
    ):
        assert piece in text, piece


@pytest.mark.parametrize(
    "logs", [None, [], [log(0)], [log(1)], [log(2, state=State.RUNNING, paused=True)]]
)
def test_a_page_is_well_formed_and_asks_the_network_for_nothing(logs):
    made = page(whole_verdict(), logs)
    read = PageReader(made)
    assert len(read.ids) == len(set(read.ids))
    assert [link for link in read.links if not link.startswith("#")] == []
    assert {link[1:] for link in read.links} <= set(read.ids)
    # The banner of uPlot names its home.
    own = made.replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "")
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest|WebSocket", own)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert "style" not in [name for _, name, _ in read.attributes]
    referred = [
        value
        for _, name, value in read.attributes
        if name in {"aria-labelledby", "aria-describedby"}
    ]
    assert {each for value in referred for each in value.split()} <= set(read.ids)


def test_the_policy_allows_this_style_and_these_scripts_and_nothing_else():
    read = PageReader(page())
    policy = next(
        value for _, name, value in read.attributes if name == "content" and "-src" in value
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert len(read.scripts) == 4
    for content in read.scripts:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_text_is_shown_and_never_obeyed():
    finding = rule("MEM601").finding(
        HOSTILE,
        where=Location(step=1, parameter=HOSTILE, tensor=HOSTILE, path=HOSTILE),
        evidence={
            HOSTILE: HOSTILE,
            "dtype": HOSTILE,
            "changes": [{"element": HOSTILE, "before": HOSTILE, "after": HOSTILE, "bits": [3]}],
        },
        remedy=HOSTILE,
    )
    verdict = whole_verdict(
        findings=(finding,),
        coverage=Coverage(
            checked=(Checked(what=HOSTILE, count=1),), skipped=(Skipped(what=HOSTILE, why=HOSTILE),)
        ),
        stats={HOSTILE: HOSTILE},
    )
    header = {"command": [HOSTILE], "environment": {HOSTILE: {HOSTILE: [HOSTILE]}, "x": HOSTILE}}
    clean = PageReader(page(whole_verdict(findings=()))).tags
    made = page(verdict, [log(header=header, detail=HOSTILE)], run=HOSTILE)
    read = PageReader(made)
    assert read.tags.count("script") == clean.count("script")
    assert "img" not in read.tags
    assert "alert(1)" in read.text
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert "\\x1b[31m\\u202e" in read.text
    shown = [c for c in made if c != "\n" and not c.isprintable()]
    assert shown == []


def test_huge_names_are_cut():
    finding = rule("MEM601").finding(
        "m" * 9_000_000, where=Location(step=1, parameter="p" * 5_000_000)
    )
    header = {"command": ["x" * 2_000_000], "environment": {"e" * 10**6: "v" * 10**6}}
    made = page(whole_verdict(findings=(finding,)), [log(header=header)])
    assert len(made) < 400_000


def test_a_rule_that_this_release_does_not_know_is_shown_all_the_same():
    finding = flip()
    data = {**finding.to_json(), "rule": "ZZZ999", "slug": "from-the-future"}
    read = PageReader(page(whole_verdict(findings=(type(finding).from_json(data),))))
    assert "ZZZ999 from-the-future" in read.text
    assert "About ZZZ999" not in read.text


def test_many_findings_become_cards_then_rows_then_a_count():
    findings = tuple(flip(step=step) for step in range(MAX_CARDS + MAX_ROWS + 9))
    read = PageReader(page(whole_verdict(findings=findings)))
    assert read.tags.count("article") == MAX_CARDS
    assert f"{MAX_ROWS} more findings" in read.text
    assert "And 9 errors (MEM601)" in read.text
    assert read.text.count("About MEM601") == 1
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    marks = read.data["timelines-data"]["findings"]
    assert len(marks) == len(findings) <= MAX_MARKERS
    assert {anchor for _, _, anchor, _, _ in marks} <= set(read.ids)


def test_the_same_place_twice_has_one_anchor():
    read = PageReader(page(whole_verdict(findings=(flip(), flip()))))
    assert read.ids.count(f"f-{flip().id}") == 1
    assert read.tags.count("article") == 2


def nodes(made: str) -> dict[str, str]:
    found = re.findall(r'<li class="node (\w+)" data-link="(\w+)"', made)
    return {link: standing for standing, link in found}


def test_the_broken_link_is_marked_and_unwatched_links_are_named():
    made = page(whole_verdict(findings=(flip(),)))
    found = nodes(made)
    assert found["state"] == "broken"
    assert found["batch"] == "recorded"
    assert found["reduce"] == "unwatched"
    assert found["environment"] == "recorded"
    assert set(found) == {str(link) for link in Link}
    assert f'<a href="#f-{flip().id}">' in made


def test_state_is_tested_only_where_the_account_says_so():
    assert nodes(page(whole_verdict(findings=())))["state"] == "tested"
    untested = page(whole_verdict(findings=(), coverage=Coverage()))
    assert nodes(untested)["state"] != "tested"
    nothing = Coverage(checked=(Checked(what="tensors at rest", count=0),))
    assert nodes(page(whole_verdict(findings=(), coverage=nothing)))["state"] != "tested"


def test_bits_are_drawn_with_the_flipped_one_marked():
    made = page(whole_verdict(findings=(flip(),)))
    assert made.count('<b class="flipped">1</b>') == 1
    assert "Flipped bits of float32, counted from the least significant: 31" in made
    assert "Which bits were hit" not in made


def test_the_map_of_bits_adds_up_all_findings():
    read = PageReader(page(whole_verdict(findings=(flip(step=1), flip(step=2)))))
    assert "Which bits were hit" in read.text
    assert "float32: 2 changed elements" in read.text
    assert ("b", "class", "hit h4") in read.attributes


def test_a_run_that_is_going_says_so_and_how_to_look_again():
    text = PageReader(page(logs=[log(state=State.RUNNING)])).text
    assert "still going: this is what is on record so far" in text
    assert "Look again" in text


def test_ranks_tell_who_is_dead_late_or_paused():
    logs = [
        log(30, rank=0),
        log(12, rank=1, state=State.KILLED),
        log(29, rank=2, state=State.RUNNING, paused=True),
        log(5, rank=3, attempt=0, newest=False, state=State.SIGNAL),
        log(30, rank=3, attempt=1),
    ]
    text = PageReader(page(logs=logs)).text
    table = text[text.index("A row for each process") : text.index("Coverage What")]
    assert "dead: no end on record 18 steps behind" in table
    assert "still going paused" in table
    assert table.count("behind") == 1  # one step apart is how ranks are; a resumed one is not late
    assert "everybit release runs/a" in text


def test_the_findings_of_a_rank_are_counted_in_its_row():
    stood = rule("RUN153").finding(
        "rank 1 stood still", where=Location(rank=1, step=4), evidence={"seconds": 61.5}
    )
    hostile = rule("RUN153").finding(
        "x", where=Location(rank=1, step=5), evidence={"seconds": math.nan, "attempt": ["x"]}
    )
    logs = [log(30, rank=0), log(30, rank=1)]
    verdict = whole_verdict(findings=(stood, hostile, flip(3, rank=0)))
    text = PageReader(page(verdict, logs)).text
    assert "0 0 ended cleanly 30 0 - 29 1 15 s" in text
    assert "1 0 ended cleanly stood still for 61.5 s 30 0 - 29 2 15 s" in text


def test_a_finding_with_a_scene_says_how_to_look_at_it():
    data = flip().to_json()
    data["evidence"] = {**data["evidence"], "scene": "incidents/000003-MEM601"}
    made = page(whole_verdict(findings=(type(flip()).from_json(data),)))
    assert "everybit.load_incident(sys.argv[1]))' runs/a/incidents" in html.unescape(made)


def test_gradients_tested_at_rest_do_not_count_as_state():
    only = Coverage(checked=(Checked(what="tests of a gradient at rest", count=3),))
    found = nodes(page(whole_verdict(findings=(), coverage=only)))
    assert found["grad"] == "tested"
    assert found["state"] != "tested"


def test_ranks_without_a_log_are_counted():
    from everybit.report.page import render_page

    made = render_page(
        whole_verdict(),
        [log()],
        timelines(),
        run="runs/a",
        made_at_s=0.0,
        version="0",
        world_size=4,
    )
    assert "no log of 3 ranks" in PageReader(made).text


def healed(healed_: bool, tainted: bool, step: int = 7):
    data = flip(step=step).to_json()
    data["evidence"] = {**data["evidence"], "healed": healed_, "tainted": tainted}
    return type(flip()).from_json(data)


@pytest.mark.parametrize(
    ("healed_", "tainted", "told"),
    [
        (True, False, "healed before its use: no later value depends on it"),
        (True, True, "from step 7 on may depend on damaged bits"),
        (False, False, "from step 7 on may depend on damaged bits"),
    ],
)
def test_what_a_break_means_for_what_came_after(healed_, tainted, told):
    text = PageReader(page(whole_verdict(findings=(healed(healed_, tainted),)))).text
    assert "The chain first broke at state, before step 7." in text
    assert told in text
    assert ("1 healed" in text) == healed_


def test_the_headline_is_the_finding_that_was_not_healed():
    findings = (healed(True, False, 3), healed(False, False, 9), healed(True, False, 12))
    text = PageReader(page(whole_verdict(findings=findings))).text
    assert "3 errors, 2 healed before use. Not healed: weights changed at rest at step 9" in text
    assert "What was computed from step 9 on may depend on damaged bits" in text


@pytest.mark.parametrize(
    ("findings", "tone"),
    [
        ((healed(False, False),), "error"),
        ((healed(True, False), healed(False, False, 9)), "error"),
        ((healed(True, True),), "error"),
        ((healed(True, False),), "warning"),
        ((), "good"),
    ],
)
def test_the_answers_colour_is_that_of_what_was_not_healed(findings, tone):
    coverage = Coverage(checked=(Checked(what="tensors", count=1),))
    read = PageReader(page(whole_verdict(findings=findings, coverage=coverage)))
    assert ("section", "class", f"verdict {tone}") in read.attributes


def test_a_run_that_healed_is_not_told_to_heal():
    header = {"command": ["python", "train.py"], "config": {"on_finding": "heal"}}
    verdict = whole_verdict(findings=(flip(),))
    assert "run --on-finding heal" in PageReader(page(verdict)).text
    assert "run --on-finding heal" not in PageReader(page(verdict, [log(header=header)])).text


def test_several_ranks_are_started_by_torchrun():
    verdict = whole_verdict(findings=(flip(),))
    text = PageReader(page(verdict, [log(rank=0), log(rank=1)])).text
    assert "torchrun ... -m everybit run --on-finding heal train.py" in text
