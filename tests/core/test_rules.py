"""The registry: one file a rule, its docstring a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from everybit.core import rules as package
from everybit.core.errors import UsageError
from everybit.core.rule import HEADINGS, all_rules, rule, rule_ids

FILES = sorted(
    path for path in Path(package.__file__).parent.glob("*.py") if path.stem != "__init__"
)


def test_every_file_is_a_rule_and_every_rule_a_file():
    assert [path.stem[:6].upper() for path in FILES] == rule_ids()
    assert len({each.slug for each in all_rules()}) == len(FILES) > 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_rule_file(path):
    identity, _, slug = path.stem.partition("_")
    found = rule(identity)
    assert found.id == identity.upper()
    assert found.slug == slug.replace("_", "-")
    lines = found.doc.strip().splitlines()
    assert lines[0].endswith(".")
    assert tuple(line[:-1] for line in lines if line in {f"{h}:" for h in HEADINGS}) == HEADINGS
    for heading, following in zip(HEADINGS, [*HEADINGS[1:], None], strict=True):
        section = found.doc.split(f"\n{heading}:\n")[1].split(f"\n{following}:\n")[0]
        assert section.strip(), heading
    assert found.remedy.endswith(".")
    assert "weights_only=False" not in found.remedy


def test_pages_render():
    page = rule("MEM601").page
    assert page.startswith("# MEM601 `weights-changed-at-rest`\n\nParameters or buffers changed")
    assert "Severity: error. Certainty: proof." in page
    for heading in HEADINGS:
        assert f"\n## {heading}\n\n" in page
    assert "\n    " not in page  # an indented line is a code block to a Markdown reader


def test_rules_are_found_by_id_and_slug_in_any_case():
    assert rule("fil102") is rule("FIL102")
    assert rule("tensor-bytes-changed").id == "FIL102"
    assert rule("TENSOR_BYTES_CHANGED").id == "FIL102"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("MEM61", "MEM601"),
        ("tensor-byte-changed", "tensor-bytes-changed"),
        ("", ""),
        ("x/../y", ""),
    ],
)
def test_an_unknown_rule_suggests_the_nearest(key, near):
    with pytest.raises(UsageError, match=f"{near}.*rule --all"):
        rule(key)
