from __future__ import annotations

from typing import TYPE_CHECKING

from bench.ledger_campaign import kill_campaign

if TYPE_CHECKING:
    from pathlib import Path


def test_a_slice_of_the_kill_campaign(tmp_path: Path) -> None:
    result = kill_campaign(tmp_path, count=6, seed=3)
    assert result["kills"] == 6
    assert result["completed_steps_lost"] == []
    assert result["read_wrong"] == []
    assert result["steps_recorded"] > 6
