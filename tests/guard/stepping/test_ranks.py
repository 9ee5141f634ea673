"""Three DDP ranks on gloo: a fault on one is undone on all, and told once, by that one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.forked import Job, run_forked
from tests.guard.stepping import ranks_script
from tests.guard.test_ranks import free_port

MEMORY = ["weight@between", "weight@forward", "moment@backward", "gradient@backward"]
COMPUTED = ["activation", "input-gradient", "parameter-gradient"]
RULES = {"weight": "MEM601", "moment": "MEM602", "gradient": "MEM603"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place = tmp_path_factory.mktemp("ranks")
    port = free_port()
    jobs = [
        Job(
            name=f"rank{rank}",
            script=[
                ranks_script.__file__,
                ",".join(["bare", "clean", *MEMORY, *COMPUTED]),
                str(place),
            ],
            environment={
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(3)
    ]
    for name, (code, _, errors) in run_forked(place, jobs).items():
        assert code == 0, f"{name}: {errors[-2000:]}"
    return [json.loads((place / f"ranks.{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.parametrize("model", ranks_script.MODELS)
def test_a_clean_run_is_left_as_it_is(ranks: list[dict[str, Any]], model: str) -> None:
    for found in ranks:
        clean = found[f"{model} clean"]
        assert clean["bits"] == found[f"{model} bare"]["bits"]
        assert clean["findings"] == []
        assert clean["skipped"] == []
        # The first step of DDP, before it lays its buckets out anew, cannot repeat.
        assert clean["checked"]["whole steps that repeated exactly"] == 4
        assert clean["checked"]["steps recorded"] == 5


@pytest.mark.parametrize("model", ranks_script.MODELS)
@pytest.mark.parametrize("case", [*MEMORY, *COMPUTED])
def test_a_fault_on_one_rank(ranks: list[dict[str, Any]], model: str, case: str) -> None:
    for found in ranks:
        assert found[f"{model} {case}"]["bits"] == found[f"{model} bare"]["bits"]
        assert found[f"{model} {case}"]["skipped"] == []
    findings = [found[f"{model} {case}"]["findings"] for found in ranks]
    assert [len(each) for each in findings] == [0, 1, 0], findings
    ((rule, message, where),) = findings[1]
    assert (where["rank"], where["step"]) == (1, 3), message
    kind = case.partition("@")[0]
    if case in MEMORY:
        assert rule == RULES[kind], message
        ((name, slot),) = ranks[1][f"{model} {case}"]["told"]
        assert (where["parameter"], where.get("tensor")) == (name, slot)
    else:
        assert ranks[1][f"{model} {case}"]["hits"] == 1
        assert rule == "CMP701", message
        assert where["module"] == ranks_script.MODULES[model], message
