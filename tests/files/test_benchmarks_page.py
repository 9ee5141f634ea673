from __future__ import annotations

from bench.table import write_section


def test_sections_are_replaced_in_place(tmp_path):
    page = tmp_path / "benchmarks.md"
    write_section("a", "one\n", page=page)
    write_section("b", "two", page=page)
    first = page.read_text()
    assert first.startswith("# Benchmarks")
    write_section("a", "three", page=page)
    text = page.read_text()
    assert "one" not in text
    assert text.index("three") < text.index("two")
    write_section("a", "one", page=page)
    assert page.read_text() == first
