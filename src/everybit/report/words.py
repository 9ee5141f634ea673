"""The page's own words in each of its languages; the reader's switch shows one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from everybit.report.catalogue import WORDS
from everybit.report.catalogue_record import RECORDED
from everybit.report.markup import Markup, tag, text
from everybit.report.safe_text import printable_message

#: Languages of the page: their name in its switch, and their tag. Without scripts it is the first.
LANGUAGES: Final = (("en", "en"), ("zh", "zh-Hans"))

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Said:
    """The same words in English and Chinese, as plain text."""

    en: str
    zh: str

    def __str__(self) -> str:
        return self.en


def say(key: str, **values: object) -> Said:
    """Return words of the catalogue.

    Args:
        key: Entry of the catalogue.
        values: What to put in; `Said` goes in by its language, numbers with separators. Of an
            English entry `one|many`, `n` chooses.

    >>> say("unit.steps", n=1).en, say("unit.steps", n=1200).en
    ('1 step', '1,200 steps')
    """
    en, zh = WORDS[key]
    if "|" in en:
        one, many = en.split("|")
        en = one if values.get("n") == 1 else many
    return Said(
        en.format(**{name: _in(value, 0) for name, value in values.items()}),
        zh.format(**{name: _in(value, 1) for name, value in values.items()}),
    )


def recorded(phrase: str) -> Said:
    """Return what a record says in English, with its translation where it is a known phrase."""
    return Said(phrase, RECORDED.get(phrase, phrase))


def listed(parts: list[Said]) -> Said:
    """Return parts as a list in a sentence."""
    return Said(", ".join(part.en for part in parts), "，".join(part.zh for part in parts))


def _in(value: object, language: int) -> str:
    if isinstance(value, Said):
        return value.zh if language else value.en
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    return f"{value:,}"


def pair(said: Said) -> Markup:
    """Return words in all languages, of which the page shows one.

    >>> pair(Said("step", "step"))
    'step'
    """
    if said.en == said.zh:
        return prose(said.en)
    spans = (tag("span", prose(w), class_="t", lang=code) for w, (_, code) in _each(said))
    return Markup("".join(spans))


def tell(key: str, **values: object) -> Markup:
    """Return words of the catalogue as markup."""
    return pair(say(key, **values))


def prose(message: object) -> Markup:
    """Return a message with its backquoted names set as code.

    >>> prose("`w` changed")
    '<code>w</code> changed'
    """
    return Markup(_CODE.sub(r"<code>\1</code>", text(printable_message(message))))


def _each(said: Said) -> list[tuple[str, tuple[str, str]]]:
    return list(zip((said.en, said.zh), LANGUAGES, strict=True))
