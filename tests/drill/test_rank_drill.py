"""Faults of a job on several ranks: of one of them, and of the reduction."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from everybit.api.drill import drill
from everybit.core.errors import UsageError
from everybit.drill.executor import LocalProcesses
from everybit.drill.plan import RANKS, plan_builtin
from everybit.drill.rank_faults import struck_rank
from everybit.drill.trial import RANKED, SHAPES, Fate, Shape, Site, Trial
from everybit.drill.trying import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import torch, torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3))
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(1 + dist.get_rank())
for epoch in range(10**6):
    optimizer.zero_grad()
    model(torch.randn(4, 6)).square().mean().backward()
    optimizer.step()
"""


def planned(**facts: Any) -> tuple[Trial, ...]:
    return plan_builtin(faults=1, seed=0, settings=SETTINGS, **facts).trials


def test_every_ranked_site_is_planned_once_with_clean_runs_beside_it() -> None:
    trials = [trial for trial in planned() if trial.ranks > 1]
    counts = Counter(trial.site for trial in trials)
    assert {site: counts[site] for site in RANKED} == {site: len(SHAPES[site]) for site in RANKED}
    assert counts[Site.CLEAN] == 4
    assert {trial.ranks for trial in trials} == {RANKS}
    assert not any(trial.ranks > 1 for trial in planned(sites=[Site.WEIGHT]))


def test_each_fault_is_caught_on_its_rank_and_a_clean_run_is_silent() -> None:
    (some,) = [t for t in planned(sites=[Site.RANK]) if t.site is Site.RANK]
    sites = {Site.CLEAN: Shape.NONE, Site.RECEIVED: Shape.FLIP, Site.RANK: Shape.STUCK}
    trials = [
        replace(some, subject="mlp", site=site, shape=shape, step=6 if site is Site.CLEAN else 3)
        for site, shape in sites.items()
    ]
    found = {o.trial.site: o for o in LocalProcesses(1).map(trials)}
    assert found[Site.CLEAN].fate is Fate.CLEAN, found[Site.CLEAN]
    assert found[Site.CLEAN].same_end
    received, rank = found[Site.RECEIVED], found[Site.RANK]
    assert (received.fate, received.rules[0]) == (Fate.CAUGHT, "RNK802")
    assert received.placed
    assert received.where is not None
    assert received.where["rank"] == struck_rank(received.trial)
    assert (rank.fate, rank.rules[0]) == (Fate.CAUGHT, "CMP701")
    assert rank.placed


def test_a_script_of_several_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    table = drill(str(script), faults=1, steps=6, sites=["replica"], workers=1, ranks=2).table
    assert table["trials"]["done"] == table["trials"]["asked"] == 1 + len(SHAPES[Site.REPLICA])
    (site,) = table["sites"]
    assert site["missed"] == 0
    assert site["rules"].keys() == {"RNK801"}
    assert table["false_alarms"] == {**table["false_alarms"], "alarms": 0, "steps": 6}


def test_ranks_are_of_a_script() -> None:
    with pytest.raises(UsageError, match="--ranks without a script"):
        drill(ranks=2)
