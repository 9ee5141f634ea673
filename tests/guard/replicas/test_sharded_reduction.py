"""FSDP2 scatters what it reduces: the parts of the mean add up to what the ranks have sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.guard.replicas.ranks_script import run_scenarios

from everybit.guard.replicas.block_sums import Blocks, shard_sums, signed_sums

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = """
    def sharded(**options):
        model = plain()
        for part in (model[0], model[3]):
            fully_shard(part, **options)
        fully_shard(model, **options)
        return model, torch.optim.AdamW(model.parameters())

    def part(model, optimizer):
        if rank == 1:
            flip(model[0].weight.grad, 5)

    @scenario(on=None)
    def bare(): return {"build": sharded}

    @scenario(replay_every=1)
    def clean(): return {"build": sharded}

    @scenario(replay_every=1, behind=part)
    def wrong(): return {"build": sharded}

    def closure(name, on=None, wrong=False):
        model, optimizer = sharded()
        torch.manual_seed(100 + rank)
        right, calls = nn.Linear.forward, []

        def sometimes_wrong(self, x):
            y = right(self, x)
            if self is model[0]:
                calls.append(1)
                if wrong and rank == 1 and len(calls) == 6:
                    flip(y, 7)
            return y

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        nn.Linear.forward = sometimes_wrong
        batches = [torch.randn(8, 20) for _ in range(5)]
        if on is None:
            losses, findings = [step(x) for x in batches], []
        else:
            settings = {"on_finding": on, "replay_every": 1, "patience_s": 20}
            with everybit.Guard(model, optimizer, run=f"runs/{name}", **settings) as guard:
                losses = [guard.step(step, x) for x in batches]
            findings = [finding.to_json() for finding in guard.findings]
        nn.Linear.forward = right
        dist.barrier()
        results[name] = {"losses": losses, "digest": digest(model), "findings": findings}

    closure("step_bare")
    closure("step_clean", on="warn")
    closure("step_wrong", on="rewind", wrong=True)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("sharded")
    return run_scenarios(place, SCENARIOS)


def test_a_clean_run_is_summed_and_the_same(results: list[dict[str, Any]]) -> None:
    for each in results:
        clean = each["clean"]
        assert clean["digest"] == each["bare"]["digest"]
        assert clean["findings"] == []
        assert clean["checked"]["reductions of a gradient"] == 6 * 6


def test_a_part_that_is_wrong_on_one_rank_does_not_add_up(results: list[dict[str, Any]]) -> None:
    first, second, third = (each["wrong"]["findings"] for each in results)
    (finding,) = [each for each in first if each["rule"] == "RNK802"]
    assert (finding["where"]["step"], finding["where"]["parameter"]) == (3, "0.weight")
    assert not any(each["rule"] == "RNK802" for each in (*second, *third))


def test_whole_steps_are_computed_again_and_undone(results: list[dict[str, Any]]) -> None:
    for each in results:
        bare, clean, wrong = (each[f"step_{name}"] for name in ("bare", "clean", "wrong"))
        assert clean["findings"] == []
        for other in (clean, wrong):
            assert (other["losses"], other["digest"]) == (bare["losses"], bare["digest"])
    (finding,) = results[1]["step_wrong"]["findings"]
    assert (finding["rule"], finding["where"]["module"]) == ("CMP701", "0")
    assert finding["evidence"]["rewound"]
    assert results[0]["step_wrong"]["findings"] == []


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
def test_parts_add_up_to_the_whole(num_shards: int) -> None:
    blocks = Blocks(1000, 256, 0)
    whole = torch.randn(1000)
    parts = torch.tensor_split(whole, num_shards)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    added = sum(
        shard_sums(part, blocks, int(start)) for part, start in zip(parts, starts, strict=False)
    )
    assert torch.allclose(torch.as_tensor(added), signed_sums(whole, blocks), atol=1e-12)
