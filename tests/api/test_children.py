"""Ranks that a watched script starts itself, and ranks that torchrun starts: one run folder."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import Job, run_forked

import everybit
from everybit.api.report import verdict_of_run

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import multiprocessing, os, sys
    how, out = sys.argv[1:]
    if how == "torchrun" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(3)
    import hashlib, torch
    import torch.multiprocessing as mp
    from torch.distributed import destroy_process_group, init_process_group
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, TensorDataset

    def worker(rank, how, out):
        store = f"file://{os.getcwd()}/{out}.store"
        init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        train(rank, how, out)

    def train(rank, how, out):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        model = DDP(torch.nn.Linear(8, 64))
        optimizer = torch.optim.AdamW(model.parameters())
        workers = 1 if how == "fork" else 0
        data = DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=8, num_workers=workers)
        for (x,) in data:
            model(x + rank).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if how == "fail" and rank == 1:
                raise ValueError("its own error")
        digest = hashlib.sha256(model.module.weight.detach().numpy().tobytes())
        with open(f"{out}.{rank}", "w") as file:
            file.write(digest.hexdigest())
        destroy_process_group()

    if __name__ == "__main__":
        if how == "torchrun":
            init_process_group("gloo")
            train(int(os.environ["RANK"]), how, out)
        elif how == "spawn":
            mp.spawn(worker, args=(how, out), nprocs=2)
        elif how == "fail":
            mp.start_processes(worker, args=(how, out), nprocs=2, start_method="fork")
        else:
            context = multiprocessing.get_context("fork")
            ranks = [context.Process(target=worker, args=(rank, how, out)) for rank in range(2)]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
"""

LAUNCH = """
    import os, sys
    from torch.distributed.run import main
    os.environ["OMP_NUM_THREADS"] = "1"
    main(["--standalone", "--nproc-per-node", "2", "--max-restarts", "1", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, str, str]]]:
    place = tmp_path_factory.mktemp("children")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    (place / "start.py").write_text(textwrap.dedent(LAUNCH))

    def job(name: str, how: str, *options: str) -> list[Job]:
        return [Job(name=name, options=list(options), script=["train.py", how, name])]

    torchrun = ["start.py", "-m", "everybit", "run", "train.py", "torchrun", "torchrun"]
    return place, run_forked(
        place,
        job("bare", "fork"),
        job("fork", "fork", "run", "--run", "run-fork"),
        job("fail", "fail", "run", "--run", "run-fail"),
        [
            *job("spawn", "spawn", "run", "--run", "run-spawn"),
            Job(name="torchrun", script=torchrun),
        ],
    )


@pytest.mark.parametrize("name", ["fork", "spawn", "torchrun"])
def test_every_rank_is_watched_and_unchanged(ended: Any, name: str) -> None:
    place, jobs = ended
    assert jobs[name][0] == 0, jobs[name]
    for rank in range(2):
        assert (place / f"{name}.{rank}").read_text() == (place / f"bare.{rank}").read_text()
    folder = place / f"run-{name}"
    if name == "torchrun":
        (folder,) = (place / "everybit-runs").iterdir()
    run = everybit.open_run(folder)
    assert run.ranks == [0, 1]
    assert run.damage == ()
    for rank in range(2):
        log = run.log(rank)
        assert log.num_steps == 4
        assert log.header["world_size"] == 2
        assert log.end is not None
        assert log.end.reason == "clean"
    findings = verdict_of_run(run).findings
    if name == "torchrun":
        # The first attempt ended itself, on both ranks unless torchrun was faster to end the other
        # one, and torchrun started them again.
        attempts = [len(run.logs(rank)) for rank in range(2)]
        assert max(attempts) == 2
        assert min(attempts) >= 1
        assert {f.rule for f in findings} <= {"RUN151"}
        assert {f.severity for f in findings} <= {"note"}
    else:
        assert [len(run.logs(rank)) for rank in range(2)] == [1, 1]
        assert findings == ()
        assert verdict_of_run(run).ok


def test_a_rank_that_fails_says_why(ended: Any) -> None:
    place, jobs = ended
    code, _, errors = jobs["fail"]
    assert code == 1
    assert "ValueError: its own error" in errors
    findings = {
        f.where.rank: f for f in verdict_of_run(everybit.open_run(place / "run-fail")).findings
    }
    assert {f.rule for f in findings.values()} == {"RUN151"}
    assert "ValueError: its own error" in findings[1].message


def test_children_are_left_as_they_were(ended: Any) -> None:
    _, jobs = ended
    assert "Traceback" not in jobs["fork"][2]
    assert "not watched" not in "".join(errors for _, _, errors in jobs.values())
