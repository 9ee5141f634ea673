"""README.zh-CN.md says what README.md says: its headings, commands, rows, names and links."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
HEADINGS = {
    "# everybit": "# everybit",
    "## See it": "## 先看演示",
    "## Use it": "## 使用",
    "## Verbs": "## 命令",
    "## What is covered, and what is not": "## 覆盖范围与局限",
    "## Read on": "## 延伸阅读",
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def _sections(name):
    """Return `{heading: text below it}` and the code blocks, which are taken out of the text."""
    text = (ROOT / name).read_text(encoding="utf-8")
    parts = re.split(r"^(#+ .*)$", BLOCK.sub("", text), flags=re.M)
    assert not parts[0].strip()
    return dict(zip(parts[1::2], parts[2::2], strict=True)), BLOCK.findall(text)


@pytest.fixture(scope="module")
def pairs():
    english, chinese = _sections(ENGLISH)[0], _sections(CHINESE)[0]
    assert list(english) == list(HEADINGS), "README.md has other headings: both files, and the map"
    assert list(chinese) == list(HEADINGS.values())
    return [(english[one], chinese[other]) for one, other in HEADINGS.items()]


def test_code_blocks_are_the_same_to_the_letter():
    assert _sections(CHINESE)[1] == _sections(ENGLISH)[1]


def _rows(text):
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows]


def test_tables_have_the_same_rows(pairs):
    for english, chinese in pairs:
        ours, theirs = _rows(chinese), _rows(english)
        assert [len(row) for row in ours] == [len(row) for row in theirs]
        assert [row[0] for row in ours[1:]] == [row[0] for row in theirs[1:]]


def test_every_name_and_flag_is_there(pairs):
    for english, chinese in pairs:
        spans = [Counter(re.findall(r"`([^`]+)`", text)) for text in (english, chinese)]
        assert spans[0] == spans[1]


def test_every_point_is_there(pairs):
    for english, chinese in pairs:
        assert chinese.count("\n- ") == english.count("\n- ")


def test_links_lead_to_the_same_places(pairs):
    for english, chinese in pairs:
        places = [re.findall(r"\]\(([^)]+)\)", text) for text in (english, chinese)]
        places = [sorted({*found} - {ENGLISH, CHINESE}) for found in places]
        assert places[0] == places[1]


def test_each_names_the_other():
    for one, other in ((ENGLISH, CHINESE), (CHINESE, ENGLISH)):
        assert f"]({other})" in (ROOT / one).read_text(encoding="utf-8").split("\n## ")[0]


def test_it_is_chinese(pairs):
    for _, chinese in pairs:
        for line in chinese.splitlines():
            plain = re.sub(r"`[^`]+`|\[English\]", "", line)
            words = re.findall(r"[A-Za-z]{2,}(?: [A-Za-z]{2,}){2,}", plain)
            assert not words, f"not translated: {words}"
