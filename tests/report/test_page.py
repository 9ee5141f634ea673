from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re

import pytest
from tests.report.page_reader import PageReader
from tests.report.run_maker import flip

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import all_rules, rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.report.findings_html import MAX_CARDS, MAX_ROWS
from everybit.report.page import render_page
from everybit.report.run_summary import LogSummary, State

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\x1b[31m\u202e"


def log(num_steps: int = 30, loss=lambda step: 3.0 / (step + 1), **facts) -> LogSummary:
    values = {
        "rank": 0,
        "attempt": 0,
        "header": {"command": ["python", "train.py"], "environment": {"python": {"v": "3.11"}}},
        "state": State.CLEAN,
        **facts,
    }
    made = LogSummary(**values)
    for step in range(num_steps):
        made.num_steps += 1
        made.first_step, made.last_step = 0, step
        made.seconds += 0.5
        made.guard_seconds += 0.005
        made.guard_share.add(step, 1.0)
        made.losses.add(step, loss(step))
    made.links = {Link.INIT, Link.BATCH, Link.LOSS, Link.UPDATE}
    return made


def page(verdict: Verdict | None = None, logs=None, run: str = "runs/a") -> str:
    verdict = verdict or Verdict(command="run", target=(run,))
    return render_page(
        verdict, [log()] if logs is None else logs, run=run, made_at_s=1.8e9, version="0.0"
    )


def whole_verdict(**facts) -> Verdict:
    return Verdict(
        command="run",
        target=("runs/a",),
        **{
            "findings": tuple(
                each.finding(
                    f"message of {each.id}", where=Location(step=3, rank=0, parameter="h.w")
                )
                for each in all_rules()
            ),
            "coverage": Coverage(
                checked=(Checked(what="tensors at rest", count=1234),),
                skipped=(
                    Skipped(what="forward", why="not in this release", promised=False),
                    Skipped(what="gradients", why="compiled region"),
                ),
            ),
            "stats": {"seconds": 12.5},
            **facts,
        },
    )


def test_every_finding_is_there_with_rule_remedy_and_explanation():
    verdict = whole_verdict()
    read = PageReader(page(verdict))
    for finding in verdict.findings:
        explained = rule(finding.rule)
        assert f"f-{finding.id}" in read.ids
        assert f"{finding.rule} {finding.slug}" in read.text
        assert finding.message in read.text
        assert " ".join(finding.remedy.replace("`", "").split()) in read.text.replace("`", "")
        assert f"About {finding.rule}: {explained.title}" in read.text
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


@pytest.mark.parametrize("logs", [None, [], [log(0)], [log(1)], [log(2, state=State.RUNNING)]])
def test_a_page_is_well_formed_and_asks_the_network_for_nothing(logs):
    made = page(whole_verdict(), logs)
    read = PageReader(made)
    assert len(read.ids) == len(set(read.ids))
    assert [link for link in read.links if not link.startswith("#")] == []
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert not re.search(r"https?://|url\(|@import|//[a-z]+\.", made)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert "style" not in [name for _, name, _ in read.attributes]


def test_the_policy_allows_this_style_and_script_and_nothing_else():
    read = PageReader(page())
    policy = next(
        value for _, name, value in read.attributes if name == "content" and "-src" in value
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert len(read.scripts) == 2
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
    made = page(verdict, [log(header=header, detail=HOSTILE)], run=HOSTILE)
    read = PageReader(made)
    assert read.tags.count("script") == 1
    assert "img" not in read.tags
    assert "alert(1)" in read.text
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert not [c for c in made if c != "\n" and not c.isprintable()]
    assert "\\x1b[31m\\u202e" in read.text


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
    assert "And 9 error MEM601" in read.text
    assert read.text.count("About MEM601") == 1
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)


def test_the_same_place_twice_has_one_anchor():
    read = PageReader(page(whole_verdict(findings=(flip(), flip()))))
    assert read.ids.count(f"f-{flip().id}") == 1
    assert read.tags.count("article") == 2


def test_the_broken_link_is_marked_and_unwatched_links_are_named():
    made = page(whole_verdict(findings=(flip(),)))
    found = re.findall(r'<g class="node (\w+)"><rect[^>]*></rect><text[^>]*>(\w+)<', made)
    nodes = {link: standing for standing, link in found}
    assert nodes["state"] == "broken"
    assert nodes["batch"] == "recorded"
    assert nodes["reduce"] == "unwatched"
    assert nodes["environment"] == "recorded"
    assert set(nodes) == {str(link) for link in Link}


def test_state_is_tested_only_where_the_account_says_so():
    tested = page(whole_verdict(findings=()))
    assert 'class="node tested"' in tested
    untested = page(whole_verdict(findings=(), coverage=Coverage()))
    assert 'class="node tested"' not in untested
    nothing = Coverage(checked=(Checked(what="tensors at rest", count=0),))
    assert 'class="node tested"' not in page(whole_verdict(findings=(), coverage=nothing))


def test_bits_are_drawn_with_the_flipped_one_marked():
    made = page(whole_verdict(findings=(flip(),)))
    assert made.count('class="sign flipped"') == 1
    assert "<title>bit 31, sign: 0 to 1</title>" in made
    assert made.count('class="exponent"') == 8
    assert made.count('class="mantissa"') == 23


def test_losses_that_are_not_finite_are_gaps_that_are_marked():
    def loss(step: int) -> float:
        return math.nan if 10 <= step < 20 else math.inf if step == 25 else 1.0 + step

    made = page(logs=[log(loss=loss)])
    read = PageReader(made)
    assert "11 values not finite" in read.text
    assert made.count('class="gap"') == 2 * 2
    assert "not finite from step 10" in read.text
    assert "nan" not in made.replace("finance", "").lower().split("<style>")[0]
    assert made.count('class="stroke s0"') >= 3 * 2


@pytest.mark.parametrize(
    "loss",
    [
        lambda step: math.nan,
        lambda step: 0.0,
        lambda step: -1e308 if step % 2 else 1e308,
        lambda step: 5e-324 * (step + 1),
        lambda step: 10.0 ** (step * 10),
        lambda step: -(10.0**step),
        lambda step: 1e308,
    ],
)
def test_no_loss_breaks_the_picture(loss):
    made = page(whole_verdict(), [log(loss=loss)])
    PageReader(made)
    for d in re.findall(r'\b(?:d|x|y|x1|y1|cx|cy|width|height)="([^"]*)"', made):
        assert not re.search(r"nan|inf|e\+", d), d
        for value in re.findall(r"-?\d+\.?\d*", d):
            assert -2000 < float(value) < 2000


def test_a_wide_range_of_losses_gets_a_log_scale():
    assert "loss (log scale)" in page(logs=[log(loss=lambda step: 10.0 ** -(step % 6))])
    assert "log scale" not in page(logs=[log(loss=lambda step: 2.0 + step / 100)])


def test_values_under_the_pointer_are_json_that_a_browser_reads():
    made = page(logs=[log(rank=0), log(rank=1, loss=lambda step: math.nan)])
    held = re.findall(r'<template class="values">(.*?)</template>', made)
    data = json.loads(html.unescape(held[0]))
    assert [name for name, _ in data] == ["rank 0", "rank 1"]
    assert data[0][1][0] == [0, 0, "3"]
    assert data[1][1][0] == [0, 0, "not finite"]


def test_a_run_that_is_going_says_so_and_how_to_look_again():
    text = PageReader(page(logs=[log(state=State.RUNNING)])).text
    assert "still going: this is what is on record so far" in text
    assert "Look again" in text


def test_many_ranks_and_long_runs_stay_small():
    logs = [log(3000, rank=rank, loss=lambda step: 2.0 + step % 7) for rank in range(64)]
    made = page(whole_verdict(), logs)
    assert len(made) < 2_000_000
    text = PageReader(made).text
    assert "A point stands for several steps" in text
    assert "and 52 more" in text


def healed(healed_: bool, tainted: bool) -> Verdict:
    data = flip(step=7).to_json()
    data["evidence"] = {**data["evidence"], "healed": healed_, "tainted": tainted}
    return whole_verdict(findings=(type(flip()).from_json(data),))


@pytest.mark.parametrize(
    ("healed_", "tainted", "told"),
    [
        (True, False, "healed before its use: no later value depends on it"),
        (True, True, "from then on may depend on damaged bits"),
        (False, False, "from then on may depend on damaged bits"),
    ],
)
def test_what_a_break_means_for_what_came_after(healed_, tainted, told):
    text = PageReader(page(healed(healed_, tainted))).text
    assert f"The first break is at state , before step 7{'.' if 'healed' in told else ':'}" in text
    assert told in text
    assert ("1 healed" in text) == healed_


def test_a_run_that_healed_is_not_told_to_heal():
    header = {"command": ["python", "train.py"], "config": {"on_finding": "heal"}}
    verdict = whole_verdict(findings=(flip(),))
    assert "--on-finding heal" in PageReader(page(verdict)).text
    assert "--on-finding heal" not in PageReader(page(verdict, [log(header=header)])).text


def test_several_ranks_are_started_by_torchrun():
    verdict = whole_verdict(findings=(flip(),))
    text = PageReader(page(verdict, [log(rank=0), log(rank=1)])).text
    assert "torchrun ... -m everybit run --on-finding heal train.py" in text
