"""What every page is made of: its sections, and the words that its script says itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.report.catalogue import WORDS
from everybit.report.markup import Markup, tag
from everybit.report.timelines_data import as_script_text
from everybit.report.words import Said, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCRIPT_WORDS: Final = (
    "copy",
    "copied",
    "chart.all",
    "chart.at",
    "chart.at.steps",
    "chart.not_finite",
    "marker",
    "marker.more",
    "range",
)


def draw_section(key: str, lead: Markup | None, content: Markup) -> Markup:
    """Return a section with its heading, what leads to it, and what it holds."""
    heading = tag("h2", tell(f"section.{key}"), id=f"section-{key}")
    return tag(
        "section",
        tag("div", heading, tag("p", lead) if lead else None, class_="lead"),
        content,
        id=key,
        aria_labelledby=f"section-{key}",
    )


def script_words(title: Said) -> Markup:
    """Return the words of a page's script, with the page's title in both languages."""
    words: Mapping[str, tuple[str, str]] = {key: WORDS[key] for key in _SCRIPT_WORDS}
    return as_script_text({**words, "title": (title.en, title.zh)})
