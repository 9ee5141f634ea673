"""A slice of the campaign of clean steps (bench/clean_steps_campaign.py): nothing is found."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pytest reads it

import pytest
from bench.clean_steps_campaign import MODELS, try_run

#: Six models: 2,000 steps, and some with checksums of products as well.
STEPS = 334
STEPS_WITH_CHECKSUMS = 25


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_found_in_clean_steps(name: str, tmp_path: Path) -> None:
    told = try_run(name, 90_000, STEPS, tmp_path, spot_checks=False)
    assert not told["findings"]
    assert not told["skipped"]
    assert told["checked"]["calls of a model computed again"] >= STEPS
    assert told["checked"]["gradients of these calls computed again"] > STEPS
    told = try_run(name, 91_000, STEPS_WITH_CHECKSUMS, tmp_path)
    assert not told["findings"]
    assert any(what.startswith("products by checksum") for what in told["checked"])
