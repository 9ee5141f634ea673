"""Long records are walked without being held: the benchmark's short form."""

from __future__ import annotations

import pytest
from bench import long_diff


@pytest.mark.parametrize("sums", [False, True])
def test_a_long_record_is_compared_in_little_memory(tmp_path, sums) -> None:
    told = long_diff.measure(tmp_path, steps=3000, modules=20, sums=sums)
    assert told["found"]
    assert told["values"] > 3000 * 120
    assert told["peak_mb"] < 500
    # The goal is 10 s for 100,000 steps of 100 modules: a hundredth of that work, or so.
    assert told["cpu_s"] < 10
    page = long_diff.markdown({"commit": "x", "rows": [told]})
    assert "| 3,000 steps of 20 modules" in page


def test_records_that_agree_do_not_part(tmp_path) -> None:
    import everybit

    for name in "ab":
        long_diff.generate(tmp_path / name, steps=50, modules=3)
    assert everybit.diff(tmp_path / "a", tmp_path / "b").first is None
