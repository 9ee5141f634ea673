"""FSDP2's reductions of every kind: copies of shards, other dtypes, gradients that were there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.guard.replicas.ranks_script import run_scenarios

if TYPE_CHECKING:
    from pathlib import Path

WORLD_SIZE, STEPS, AT, NUM_GRADIENTS = 4, 3, 1, 6

SCENARIOS = """
    from torch.distributed.fsdp import MixedPrecisionPolicy as Policy
    from torch.distributed.tensor import Shard

    STEPS, AT = 3, 1
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))

    def sharded(factor=None, **options):
        def build():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(20, 300), nn.LayerNorm(300), nn.ReLU(),
                                  nn.Linear(300, 8))
            for part in (model[0], model[3], model):
                fully_shard(part, **options)
                if factor is not None:
                    part.set_gradient_divide_factor(factor)
            return model, torch.optim.AdamW(model.parameters())
        return build

    def columns(parameter):
        return Shard(1) if parameter.dim() > 1 else None

    def once(model):
        model(torch.randn(8, 20)).square().mean().backward()

    def twice(model):
        once(model)
        once(model)

    def kept(model):  # The first pass is not reduced: its gradients stay whole on each rank.
        model.set_requires_gradient_sync(False)
        once(model)
        model.set_requires_gradient_sync(True)
        once(model)

    def partial(model):  # The first pass is reduced within a copy only.
        model.set_requires_all_reduce(False)
        once(model)
        model.set_requires_all_reduce(True)
        once(model)

    def emptied(model):
        loss = model(torch.randn(8, 20)).square().mean()
        model.zero_grad()
        loss.backward()

    half, single = torch.bfloat16, torch.float32
    KINDS = {
        "plain": ({}, once),
        "copies": ({"mesh": mesh}, once),
        "reduced_in_half": ({"mp_policy": Policy(reduce_dtype=half)}, once),
        "computed_in_half": ({"mp_policy": Policy(param_dtype=half)}, once),
        "summed_in_single": ({"mp_policy": Policy(param_dtype=half, reduce_dtype=single)}, once),
        "reduced_in_float16": ({"mp_policy": Policy(reduce_dtype=torch.float16)}, once),
        "accumulated": ({}, twice),
        "accumulated_copies": ({"mesh": mesh}, twice),
        "kept": ({}, kept),
        "kept_in_single": (
            {"mp_policy": Policy(param_dtype=half, reduce_dtype=single)}, kept),
        "divided": ({"factor": 2.0, "mesh": mesh}, once),
        "in_columns": ({"shard_placement_fn": columns}, once),
        "emptied": ({}, emptied),
        "partial": ({"mesh": mesh}, partial),
    }

    def damage(model, optimizer):
        gradient = local(model[0].weight.grad)
        if rank == 1 and not seen:
            gradient.view(-1)[7] += 100 * gradient.abs().max()
        seen.append(1)

    def train_in(kind, name, options, forward):
        def body():
            return {"build": sharded(**options), "forward": forward}

        def behind(model, optimizer):  # Behind the last backward pass of the step.
            calls.append(1)
            gradient = local(model[0].weight.grad)
            if rank == 1 and len(calls) == (1 if forward in (once, emptied) else 2):
                gradient.view(-1)[7] += 100 * gradient.abs().max()

        calls = []
        body.__name__ = f"{name}_{kind}"
        settings = {"on": None} if kind == "bare" else {"replay_every": 1}
        scenario(**settings, behind=behind if kind == "wrong" else None)(body)

    for name, (options, forward) in KINDS.items():
        if name != "partial":
            train_in("wrong", name, options, forward)
        if name in ("accumulated_copies", "kept_in_single", "partial"):
            train_in("bare", name, options, forward)
            train_in("clean", name, options, forward)
"""

KINDS = [
    "plain",
    "copies",
    "reduced_in_half",
    "computed_in_half",
    "summed_in_single",
    "reduced_in_float16",
    "accumulated",
    "accumulated_copies",
    "kept",
    "kept_in_single",
    "divided",
    "in_columns",
    "emptied",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("scattered")
    return run_scenarios(place, SCENARIOS, world_size=WORLD_SIZE)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_adds_up_and_a_part_that_is_wrong_does_not(
    results: list[dict[str, Any]], kind: str
) -> None:
    for each in results:
        wrong = each[f"{kind}_wrong"]
        # From the first step on.
        assert wrong["checked"]["reductions of a gradient"] == STEPS * NUM_GRADIENTS
        told = {what for what, _, _ in wrong["skipped"]}
        assert not any("reduced gradients" in what for what in told)
        # These compare with the runs of other layouts: of the beginning, and of every second step.
        assert wrong["checked"]["digests of whole tensors in shards"] == 6 + 2 * 18
        assert "digests of whole tensors" not in told
    found = [
        [each for each in rank[f"{kind}_wrong"]["findings"] if each["rule"] == "RNK802"]
        for rank in results
    ]
    (finding,) = found[0]
    assert (finding["where"]["step"], finding["where"]["parameter"]) == (AT, "0.weight")
    assert found[1:] == [[], [], []]


@pytest.mark.parametrize("kind", ["accumulated_copies", "kept_in_single", "partial"])
def test_a_clean_run_is_the_same(results: list[dict[str, Any]], kind: str) -> None:
    for each in results:
        assert each[f"{kind}_clean"]["findings"] == []
        assert each[f"{kind}_clean"]["digest"] == each[f"{kind}_bare"]["digest"]


def test_what_waits_for_a_later_pass_is_told(results: list[dict[str, Any]]) -> None:
    for each in results:
        whys = {why: promised for _, why, promised in each["partial_clean"]["skipped"]}
        assert whys["gradients of a pass waited for the all-reduce of a later one"] is False
