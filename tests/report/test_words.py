from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest
from tests.report.page_maker import log, page, whole_verdict
from tests.report.page_reader import PageReader

from everybit.core.finding import Certainty, Severity
from everybit.core.link import Link
from everybit.core.rule import rule_ids
from everybit.core.verdict import Status
from everybit.report import catalogue, words
from everybit.report.catalogue import WORDS
from everybit.report.catalogue_record import RULE_TITLES
from everybit.report.chain import Standing
from everybit.report.run_summary import State
from everybit.report.timelines import QUANTITIES

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize("key", sorted(WORDS))
def test_both_languages_say_the_same_things(key):
    english, chinese = WORDS[key]
    fields = [{f for _, f, _, _ in Formatter().parse(w) if f} for w in (english, chinese)]
    assert fields[0] == fields[1]
    assert all(half.strip() for half in english.split("|"))
    assert "|" not in chinese
    # What is but names and signs needs no translation.
    if re.sub(r"\{\w+\}|rank|at|[Gg]uard|everybit|\W", "", english):
        assert HAN.search(chinese) or chinese in {"Guard"}, chinese
    assert not HAN.search(english)


def test_every_key_is_used_and_every_used_key_is_there():
    folder = Path(words.__file__).parent
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (*folder.glob("*.py"), *folder.glob("*.js"))
        if path.name != Path(catalogue.__file__).name
    )
    families = {
        "state.": {f"state.{state.name}" for state in State},
        "severity.": {f"severity.{level}" for level in Severity},
        "count.": {f"count.{level}" for level in Severity},
        "certainty.": {f"certainty.{level}" for level in Certainty},
        "status.": {f"status.{status}" for status in Status},
        "link.": {f"link.{link}" for link in Link},
        "standing.": {f"standing.{standing}" for standing in Standing},
        "legend.": {f"legend.{standing}" for standing in Standing},
        "chart.": {f"chart.{name}" for name in QUANTITIES},
    }
    for names in families.values():
        assert names <= WORDS.keys()
    loose = {"section.", "lead.", "theme.", "fact.", "place.", "column.", "field.", "chain."}
    for key in WORDS:
        family = key.partition(".")[0] + "."
        known = key in families.get(family, set()) or family in loose
        assert known or f'"{key}"' in source, key
    for key in re.findall(r'\b(?:say|tell|_hidden)\(\s*"([\w.]+)"', source):
        assert key in WORDS, key


def test_every_rule_has_a_chinese_title():
    # A rule without one shows its English title: that is allowed, and told here for the families
    # that are complete.
    for rule_id in rule_ids():
        title = RULE_TITLES.get(rule_id)
        assert title is None or HAN.search(title)
    assert {"MEM601", "MEM602", "RUN151", "RUN152", "DIF181"} <= RULE_TITLES.keys()


def test_the_page_in_chinese_leaves_nothing_of_its_own_in_english():
    read = PageReader(page(whole_verdict(), [log(), log(rank=1, state=State.KILLED)]), "zh")
    english = {half for key, (en, _) in WORDS.items() if "{" not in en for half in en.split("|")}
    english -= {"English", "rank", "batch"}
    left = {text.strip() for text in read.texts} & {e for e in english if len(e) > 4}
    # Names in the text of rules are English on any page.
    assert left <= {"environment", "forward", "error", "warning"}


def test_numbers_and_plurals():
    assert words.say("unit.findings", n=1) == words.Said("1 finding", "1 条发现")
    assert words.say("unit.findings", n=2500) == words.Said("2,500 findings", "2,500 条发现")


def test_braces_and_bars_of_a_name_are_no_format():
    said = words.say("place.module", value="{0}|{n} `x")
    assert said.en == "module {0}|{n} `x"
