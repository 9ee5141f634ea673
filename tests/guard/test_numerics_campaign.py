"""A slice of the campaign of `bench/numerics_campaign.py`."""

from __future__ import annotations

import pytest
from bench import numerics_campaign as campaign

from everybit.probe import numerics

QUICK = (
    "bad batch",
    "nan from a masked sqrt",
    "parameter held in place",
    "step counter mixed",
    "rate of one group falls to zero",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_is_found_at_its_step_and_named(name, tmp_path):
    (planted,) = [fault for fault in campaign.FAULTS if fault.name == name]
    right, how = campaign.caught(planted, campaign.run_fault(planted, tmp_path / "run"))
    assert right, how


@pytest.mark.parametrize("name", ["nan from a masked sqrt", "batch with a nan", "bad batch"])
def test_the_same_where_values_are_read_at_the_end_of_the_step(name, tmp_path, monkeypatch):
    monkeypatch.setattr(numerics, "on_host", lambda _: False)
    (planted,) = [fault for fault in campaign.FAULTS if fault.name == name]
    right, how = campaign.caught(planted, campaign.run_fault(planted, tmp_path / "run"))
    assert right, how


@pytest.mark.parametrize(("kind", "dtype", "variant"), [("mlp", "fp16", 0), ("gan", "bf16", 0)])
def test_a_clean_loop_is_quiet(kind, dtype, variant, tmp_path):
    loop = campaign.make_loop(kind, seed=3, dtype=dtype, variant=variant, steps=60)
    verdict = campaign.watch(loop, 60, tmp_path / "run")
    assert verdict.ok, verdict.to_json()


def test_the_campaign_is_as_large_as_promised():
    assert len(campaign.clean_runs()) >= 40
    assert len(campaign.FAULTS) >= 20
