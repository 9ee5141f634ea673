"""One page of measured numbers: each benchmark owns a section of `docs/benchmarks.md`."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
HEAD = "# Benchmarks\n\nEach section is written by the script that it names.\n"


def write_section(name: str, markdown: str, *, page: Path = PAGE) -> None:
    """Put `markdown` between the `<!-- name -->` markers of the page; adds missing ones."""
    mark, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = page.read_text(encoding="utf-8") if page.exists() else HEAD
    section = f"{mark}\n{markdown.strip()}\n{end}"
    start, stop = text.find(mark), text.find(end)
    if 0 <= start < stop:
        text = text[:start] + section + text[stop + len(end) :]
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    page.write_text(text, encoding="utf-8")
