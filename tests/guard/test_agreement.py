"""Agreement of two ranks: in step, with a late one, with one that left, differs or is not there."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import Job, run_forked

from everybit.guard.agreement import Agreement
from everybit.guard.meeting import tell_ranks

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import json, os, sys, time
    import torch, torch.distributed as dist
    from everybit.guard.agreement import Agreement

    rank, out = int(sys.argv[1]), sys.argv[2]
    before = torch.random.get_rng_state()
    dist.init_process_group(
        "gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=2
    )
    results = {}

    def scenario(settings="same", patience_s=20.0):
        def run(body):
            agreement = Agreement(settings, patience_s)
            said = []
            def agree(wanted, step):
                began = time.monotonic()
                agreed = agreement.agree(wanted, step)
                said.append([agreed.value, agreed.known])
                return agreed, time.monotonic() - began
            longest = body(agree, agreement) or 0.0
            agreement.leave()
            skipped = [f"{item.what}: {item.why}" for item in agreement.coverage().skipped]
            results[body.__name__] = {"said": said, "skipped": skipped, "longest": longest}
            dist.barrier()
        return run

    @scenario()
    def in_step(agree, agreement):
        group = dist.distributed_c10d._world.group_count
        for step in range(3):
            agree(0, step)
        agree(5 if rank else 2, 3)  # The highest wish wins, on both.
        agree(0, 4)  # It was fulfilled.
        agree(rank, 5)
        agree(0, 6)
        assert dist.distributed_c10d._world.group_count == group

    @scenario(patience_s=1.0)
    def late(agree, agreement):
        agree(0, 0)
        if rank == 1:
            time.sleep(2.5)
        agreed, took = agree(3 if rank == 1 else 0, 1)
        for step in (2, 3):
            dist.barrier()  # The job's own collective.
            agreed, _ = agree(0, step)
            if agreed.known and agreed.value:
                break
        return took

    @scenario()
    def left_early(agree, agreement):
        agree(0, 0)
        if rank == 0:
            return max(agree(1, step)[1] for step in (1, 2, 3))

    @scenario(settings=f"every {rank}")
    def other_settings(agree, agreement):
        return agree(1, 0)[1]

    if rank == 0:
        @scenario(patience_s=1.0)
        def not_watched(agree, agreement):
            return max(agree(1, step)[1] for step in range(3))
    else:
        dist.barrier()

    results["rng"] = bool((before == torch.random.get_rng_state()).all())
    with open(f"results.{rank}", "w") as file:
        json.dump(results, file)
    began = time.monotonic()
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("agreement")
    (place / "agree.py").write_text(textwrap.dedent(SCRIPT))
    jobs = [Job(name=f"r{rank}", script=["agree.py", str(rank), "x"]) for rank in range(2)]
    ended = run_forked(place, jobs)
    assert [code for code, _, _ in ended.values()] == [0, 0], ended
    # everybit leaves nothing beside the job's own store. Whether that one stays is torch's affair:
    # its file is deleted by the last process that counts down, and two may both think it is not.
    assert {path.name for path in place.glob("store*")} <= {"store"}
    return [json.loads((place / f"results.{rank}").read_text()) for rank in range(2)]


def test_in_step(results: list[dict[str, Any]]) -> None:
    for each in results:
        said = each["in_step"]["said"]
        assert said == [[0, True]] * 3 + [[5, True], [0, True], [1, True], [0, True]]
        assert each["in_step"]["skipped"] == []
        assert each["rng"]


def test_a_late_rank_is_waited_for_once_and_both_act_at_one_step(
    results: list[dict[str, Any]],
) -> None:
    first, second = (each["late"] for each in results)
    assert first["said"][1] == [0, False]
    assert first["longest"] < 2.0
    # What rank 1 wanted at step 1 neither does alone; both do it at step 2.
    assert second["said"][1] == [3, False]
    assert first["said"][2:] == second["said"][2:] == [[3, True]]
    assert first["skipped"][0] == (
        "agreement of all ranks at step 1: rank 1 late: no answer within 1 s"
    )


def test_who_left_is_not_waited_for(results: list[dict[str, Any]]) -> None:
    left = results[0]["left_early"]
    assert left["said"] == [[0, True], [1, False], [1, False], [1, False]]
    assert left["skipped"] == ["agreement of all ranks: a rank left the run before this one did"]
    assert left["longest"] < 10
    assert results[1]["left_early"]["skipped"] == []


def test_other_settings_are_told_on_both(results: list[dict[str, Any]]) -> None:
    for each in results:
        other = each["other_settings"]
        assert other["said"] == [[1, False]]
        (why,) = other["skipped"]
        assert "watched with other settings" in why
        assert other["longest"] < 10


def test_a_rank_that_is_not_watched_hangs_nobody(results: list[dict[str, Any]]) -> None:
    alone = results[0]["not_watched"]
    assert alone["said"] == [[1, False]] * 3
    assert alone["skipped"] == ["agreement of all ranks: rank 1 not watched, or not within 0.9 s"]
    assert alone["longest"] < 5


def test_one_process_agrees_with_itself() -> None:
    agreement = Agreement("alone")
    assert agreement.agree(0, 0).known
    agreed = agreement.agree(4, 1)
    assert (agreed.value, agreed.known) == (4, True)
    assert agreement.agree(0, 2).value == 0
    assert agreement.leave() == 0
    assert agreement.coverage().checked == ()


def test_many_ranks_are_folded() -> None:
    assert tell_ranks([1, 2, 3]) == "ranks 1, 2, 3"
    assert tell_ranks(list(range(20))) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 ..."
