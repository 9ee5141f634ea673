"""Two DDP ranks: all act at one step or none does, and what befalls one rank changes no other."""

from __future__ import annotations

import signal
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import Job, run_forked
from tests.guard.test_ranks import ranks

import everybit
from everybit.api.report import verdict_of_run

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.verdict import Verdict

STEPS = 6

SCRIPT = """
    import ctypes, errno, hashlib, os, signal, sys, time
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    what, at, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    ddp = DDP(model)
    torch.manual_seed(100 + rank)
    digest = hashlib.sha256()

    def flip(tensor, element):
        ctypes.c_ubyte.from_address(tensor.data_ptr() + 4 * element + 1).value ^= 0x40

    def freeze(seconds):
        me = os.getpid()
        if not os.fork():
            time.sleep(seconds)
            os.kill(me, signal.SIGCONT)
            os._exit(0)
        os.kill(me, signal.SIGSTOP)

    def fill_disk():
        write = os.write
        def full(fd, data):
            if "rank-00001" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(fd, data)
        os.write = full

    def break_guard():
        from everybit.guard.checks import Checks
        def broken(*_):
            raise OSError("a fault of everybit's own")
        Checks.look = broken

    for step in range(6):
        if rank == 1 and step == at:
            if what == "fault": break_guard()
            if what == "flip": flip(model[0].weight, 7)
            if what == "kill": os.kill(os.getpid(), signal.SIGKILL)
            if what == "freeze": freeze(4)
            if what == "full": fill_disk()
        loss = ddp(torch.randn(8, 8)).square().mean()
        loss.backward()
        if rank == 1 and step == at:
            if what == "flip-moment": flip(optimizer.state[model[0].weight]["exp_avg"], 7)
            if what == "freeze-late": freeze(4)
        optimizer.step()
        optimizer.zero_grad()
        digest.update(loss.item().hex().encode())
        with open(f"{out}.{rank}.steps", "w") as file:
            file.write(str(step + 1))
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    with open(f"{out}.{rank}", "w") as file:
        file.write(digest.hexdigest())
    dist.destroy_process_group()
"""


def watched(name: str, on_finding: str, what: str, at: int = 3, patience_s: int = 20) -> list[Job]:
    options = ["run", "--run", name, "--on-finding", on_finding, "--patience-s", str(patience_s)]
    return ranks(name, options, what, str(at))


def bare(name: str, what: str = "none", at: int = 3) -> list[Job]:
    return ranks(name, [], what, str(at))


@dataclass(frozen=True)
class Ended:
    """All jobs, each at most once run: where, and how they ended."""

    place: Path
    jobs: dict[str, tuple[int, str, str]]

    def codes(self, name: str) -> list[int]:
        return [self.jobs[f"{name}-{rank}"][0] for rank in range(2)]

    def errors(self, name: str) -> list[str]:
        return [self.jobs[f"{name}-{rank}"][2] for rank in range(2)]

    def digests(self, name: str) -> list[str]:
        return [(self.place / f"{name}.{rank}").read_text() for rank in range(2)]

    def steps(self, name: str) -> list[int]:
        return [int((self.place / f"{name}.{rank}.steps").read_text()) for rank in range(2)]

    def verdict(self, name: str) -> Verdict:
        return verdict_of_run(everybit.open_run(self.place / name))

    def log(self, name: str, rank: int) -> Any:
        return everybit.open_run(self.place / name).log(rank)

    def agreements(self, name: str) -> list[int]:
        return [
            item.count
            for rank in range(2)
            for item in self.log(name, rank).coverage.checked
            if item.what == "agreements of all ranks"
        ]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    place = tmp_path_factory.mktemp("ranks")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    jobs = run_forked(
        place,
        bare("bare"),
        watched("clean", "stop", "none"),
        watched("stop", "stop", "flip"),
        watched("moment", "stop", "flip-moment"),
        watched("warn", "warn", "flip"),
        watched("heal", "heal", "flip"),
        bare("bare-killed", "kill"),
        watched("killed", "stop", "kill"),
        [
            *watched("frozen", "warn", "freeze", at=2, patience_s=1),
            *watched("late", "stop", "freeze-late", at=2, patience_s=1),
        ],
        watched("full", "stop", "full"),
        watched("fault", "stop", "fault"),
        at_once=3,
    )
    return Ended(place, jobs)


def test_a_clean_run_agrees_at_each_step(ended: Ended) -> None:
    assert ended.codes("bare") == ended.codes("clean") == [0, 0]
    assert ended.digests("clean") == ended.digests("bare")
    assert ended.agreements("clean") == [STEPS, STEPS]
    assert ended.verdict("clean").ok


@pytest.mark.parametrize("name", ["stop", "moment"])
def test_both_stop_before_the_same_update(ended: Ended, name: str) -> None:
    """Found when the model is called, or when the update begins, and on one rank only."""
    assert ended.codes(name) == [1, 1]
    assert ended.steps(name) == [3, 3]
    logs = [ended.log(name, rank) for rank in range(2)]
    assert [str(log.end.reason) for log in logs] == ["stopped", "stopped"]
    assert "another rank" in logs[0].end.detail
    assert "changed at rest" in logs[1].end.detail
    verdict = ended.verdict(name)
    assert [(f.where.rank, f.where.step) for f in verdict.findings] == [(1, 3)]
    assert verdict.coverage.skipped == ()


def test_no_rank_waits_where_none_has_to(ended: Ended) -> None:
    for name in ("warn", "heal"):
        assert ended.codes(name) == [0, 0]
        assert ended.agreements(name) == []
        (finding,) = ended.verdict(name).findings
        assert (finding.where.rank, finding.where.step) == (1, 3)
        assert finding.evidence["healed"] is (name == "heal")
    assert ended.digests("warn") != ended.digests("bare")
    assert ended.digests("heal") == ended.digests("bare")


def test_one_rank_is_killed(ended: Ended) -> None:
    assert ended.codes("killed") == ended.codes("bare-killed") == [1, -signal.SIGKILL]
    assert ended.steps("killed") == ended.steps("bare-killed") == [3, 3]
    for name in ("killed", "bare-killed"):  # The same error, of the job's own collective.
        assert "[rank0]: RuntimeError: " in ended.errors(name)[0]
    found = {f.where.rank: f for f in ended.verdict("killed").findings}
    assert {f.rule for f in found.values()} == {"RUN151"}
    assert "exception" in found[0].message
    assert "killed" in found[1].message


@pytest.mark.parametrize("name", ["frozen", "late"])
def test_one_rank_stands_still(ended: Ended, name: str) -> None:
    assert ended.codes(name) == [0, 0]
    assert ended.digests(name) == ended.digests("bare")
    findings = ended.verdict(name).findings
    assert {f.severity for f in findings} == {"note"}
    stalls = [f for f in findings if f.rule == "RUN153" and f.evidence["seconds"] >= 3]
    assert [(f.where.rank, f.where.step) for f in stalls] == [(1, 2)]


def test_who_is_late_is_waited_for_once(ended: Ended) -> None:
    assert ended.agreements("frozen") == []
    # Rank 0 went on after a second, and agreed again once rank 1 was back.
    assert ended.agreements("late") == [STEPS - 1, STEPS]
    (skipped,) = ended.log("late", 0).coverage.skipped
    assert skipped.what == "agreement of all ranks at step 2"
    assert skipped.why == "rank 1 late: no answer within 1 s"
    assert skipped.promised
    assert "rank 1 late" in ended.errors("late")[0]


def test_one_disk_is_full(ended: Ended) -> None:
    assert ended.codes("full") == [0, 0]
    assert ended.digests("full") == ended.digests("bare")
    assert ["no space left" in text for text in ended.errors("full")] == [False, True]
    assert ended.log("full", 0).num_steps == STEPS
    assert ended.log("full", 1).num_steps == 3
    verdict = ended.verdict("full")
    (finding,) = verdict.findings
    assert (finding.rule, finding.where.rank) == ("RUN151", 1)
    assert "could not write to the disk" in finding.message
    assert any(item.promised for item in verdict.coverage.skipped)


def test_a_fault_of_ones_own_guard_keeps_nobody_waiting(ended: Ended) -> None:
    assert ended.codes("fault") == [0, 0]
    assert ended.digests("fault") == ended.digests("bare")
    skipped, *_ = (s for s in ended.log("fault", 0).coverage.skipped if "agreement" in s.what)
    assert skipped.why == "a rank left the run before this one did"
    assert "a fault of everybit's own" in ended.log("fault", 1).coverage.skipped[0].why
    assert ended.log("fault", 0).num_steps == STEPS
