"""Reads a page back as a browser would, and refuses what a browser would have to guess at."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "hr", "img", "input", "link", "col"}


class PageReader(HTMLParser):
    """Checks nesting while it reads; collects text by language, attributes and ids."""

    def __init__(self, html: str, language: str = "en") -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[str] = []
        self.data: dict[str, Any] = {}
        self._other = {"en": "zh-Hans", "zh": "en"}[language]
        self._json: str | None = None
        self.feed(html)
        self.close()
        assert not self.stack, f"never closed: {self.stack}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        assert len(named) == len(attrs), f"an attribute of <{tag}> twice: {attrs}"
        if tag not in VOID:
            shown = named.get("lang") if named.get("class") == "t" else None
            self.stack.append((tag, shown))
        self._json = named.get("id") if named.get("type") == "application/json" else None
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "xlink:href", "action", "data", "srcset", "poster"}:
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1:], f"</{tag}> closes nothing"
        assert self.stack[-1][0] == tag, f"</{tag}> closes {self.stack[-3:]}"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1][0] in {"script", "style"}:
            if self._json is not None:
                self.data[self._json] = json.loads(data)
            else:
                self.scripts.append(data)
        elif self._other not in {shown for _, shown in self.stack}:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())
