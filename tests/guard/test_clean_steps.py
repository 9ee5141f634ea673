"""A slice of the campaign of clean steps (bench/clean_steps_campaign.py): nothing is found."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pytest reads it

import pytest
from bench.clean_steps_campaign import MODELS, try_run

#: Six models: 2,000 steps, fewer of those whose steps are long; some with checksums as well.
STEPS = {
    "MLP, dropout, L2 outside": 900,
    "CNN, batch norm, accumulation": 200,
    "LSTM": 450,
    "GPT, tied weights": 150,
    "GPT, checkpointing, bf16": 100,
    "CNN, fp16 GradScaler": 200,
}
STEPS_WITH_CHECKSUMS = 25


def test_these_are_two_thousand_steps_of_all_models() -> None:
    assert STEPS.keys() == MODELS.keys()
    assert sum(STEPS.values()) == 2000


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_found_in_clean_steps(name: str, tmp_path: Path) -> None:
    steps = STEPS[name]
    told = try_run(name, 90_000, steps, tmp_path, spot_checks=False)
    assert not told["findings"]
    assert not told["skipped"]
    assert told["checked"]["calls of a model computed again"] >= steps
    assert told["checked"]["gradients of these calls computed again"] > steps
    told = try_run(name, 91_000, STEPS_WITH_CHECKSUMS, tmp_path)
    assert not told["findings"]
    assert any(what.startswith("products by checksum") for what in told["checked"])
