"""The policy `pause`: the job waits where a finding is made, and goes on as if it had not."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked import Job, run_forked
from tests.guard.watched import bits_of, build, flip, train_step

import everybit
from everybit import StoppedError, UsageError
from everybit.api.report import verdict_of_run
from everybit.guard.pausing import Ending, Pauser
from everybit.ledger import EndReason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def wait_for(what: Callable[[], Any], timeout_s: float = 60) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError


def pauses_of(run: Path, count: int = 1) -> Any:
    if not (run / "run.json").exists():
        return ()
    pauses = everybit.open_run(run).pauses
    return pauses if len(pauses) == count else ()


class Releaser(threading.Thread):
    """Waits for a run to be paused, looks at it, and releases it: by call, command or signal."""

    def __init__(self, run: Path, *, count: int = 1, stop: bool = False, by: Any = None) -> None:
        super().__init__(daemon=True)
        self.run_folder, self.count, self.stop, self.by = run, count, stop, by
        self.pauses: Any = ()
        self.verdict: Any = None
        self.told: Any = None
        self.start()

    def run(self) -> None:
        self.pauses = wait_for(lambda: pauses_of(self.run_folder, self.count), 200)
        self.verdict = verdict_of_run(everybit.open_run(self.run_folder))
        if isinstance(self.by, signal.Signals):
            os.kill(self.pauses[0].process.pid, self.by)
        elif self.by is not None:
            command = [sys.executable, "-m", "everybit", "release", self.run_folder]
            self.told = subprocess.run(command, capture_output=True, text=True, check=False)
        else:
            everybit.release(self.run_folder, stop=self.stop)


def train(path: Path, *, flip_at: int | None = 2, **settings: Any) -> Any:
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=path, on_finding="pause", **settings)
    with guard:
        for step in range(4):
            if step == flip_at:
                flip(model[3].weight, 5, 3)
            train_step(model, optimizer)
    return guard, bits_of(model, optimizer)


def test_a_paused_job_waits_and_goes_on_as_if_it_had_not(tmp_path: Path, caplog: Any) -> None:
    run = tmp_path / "a run"
    releaser = Releaser(run)
    guard, bits = train(run)
    releaser.join()
    (pause,) = releaser.pauses
    assert (pause.step, pause.rule, pause.rank) == (2, "MEM601", 0)
    assert everybit.load_incident(run / pause.incident).step == 2
    assert pause.process.pid == os.getpid()
    assert releaser.verdict.stats["state"] == "paused at step 2"
    (told,) = [s for s in releaser.verdict.coverage.skipped if "paused" in s.why]
    assert told.why == f"paused at step 2; `everybit release '{run}'` lets it go on"
    lines = caplog.messages
    assert lines[0].startswith("everybit: MEM601 3.weight changed at rest")
    assert lines[1].startswith(f"everybit: paused at step 2; `everybit release '{run}'` lets the")
    assert lines[1].endswith("by itself it goes on in 24 h")
    assert lines[2].startswith("everybit: released: the job goes on, after ")
    assert len(lines) == 3
    log = everybit.open_run(run).log()
    (observed,) = [o for o in log.observations if o.kind == "pause"]
    assert observed.data["ending"] == "released"
    assert guard.stats["paused_seconds"] == pytest.approx(observed.data["seconds"], abs=0.01)
    assert log.end.reason is EndReason.CLEAN
    assert list((run / "paused").iterdir()) == []
    # The same as with `warn`, bit for bit; and the pause is neither the step's time nor ours.
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "b", on_finding="warn"):
        for step in range(4):
            if step == 2:
                flip(model[3].weight, 5, 3)
            train_step(model, optimizer)
    assert bits == bits_of(model, optimizer)
    assert sum(r.duration_s for r in list(log.steps())[1:]) < guard.stats["seconds"]
    assert verdict_of_run(everybit.open_run(run)).stats["state"] == "ended cleanly"


def test_nothing_found_nothing_waited_for(tmp_path: Path) -> None:
    guard, _ = train(tmp_path / "run", flip_at=None)
    assert guard.verdict.ok
    assert not (tmp_path / "run" / "paused").exists()
    assert "paused_seconds" not in guard.stats


def test_released_with_stop_it_ends_as_stop_would(tmp_path: Path) -> None:
    run = tmp_path / "run"
    Releaser(run, stop=True)
    with pytest.raises(StoppedError, match=r"MEM601 .*`everybit release --stop`"):
        train(run)
    log = everybit.open_run(run).log()
    assert log.end.reason is EndReason.STOPPED
    assert log.num_steps == 2
    assert everybit.open_run(run).pauses == ()


def test_after_its_time_the_job_goes_on(tmp_path: Path, caplog: Any) -> None:
    guard, _ = train(tmp_path / "run", pause_timeout_s=0)
    assert caplog.messages[2].startswith("everybit: nobody released it: the job goes on, after")
    log = everybit.open_run(guard.path).log()
    (observed,) = [o for o in log.observations if o.kind == "pause"]
    assert observed.data["ending"] == "timeout"
    assert log.num_steps == 4


def test_where_the_pause_cannot_be_shown_the_job_goes_on(tmp_path: Path, caplog: Any) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "paused").write_text("in the way")
    train(run)
    assert "the pause cannot be shown" in caplog.messages[1]
    assert caplog.messages[2] == "everybit: not paused at step 2: its state cannot be written"
    assert everybit.open_run(run).log().num_steps == 4


@pytest.mark.parametrize("policy", ["stop", "pause"])
def test_what_the_collector_lets_go_of_is_acted_on_at_the_next_boundary(
    tmp_path: Path, policy: str
) -> None:
    # A garbage collector's callback can neither raise nor be interrupted: nothing waits in it.
    run = tmp_path / "run"
    reached, releaser = [], Releaser(run, stop=True) if policy == "pause" else None
    guard = everybit.Guard(run=run, on_finding=policy)
    with pytest.raises(StoppedError, match="MEM601"), guard:  # noqa: PT012
        model, optimizer = build()
        other, its_optimizer = build()
        train_step(model, optimizer)
        train_step(other, its_optimizer)
        flip(other[3].weight, 5, 3)
        del other, its_optimizer
        gc.collect()
        reached.append(len(guard.findings))
        train_step(model, optimizer)
        reached.append(2)
    assert reached == [1]
    if releaser is not None:
        releaser.join()
        assert releaser.pauses[0].step == 2


class Table:
    """Ranks that agree on the highest number, each waiting for the others."""

    def __init__(self, count: int) -> None:
        self.numbers = [0] * count
        self.barrier = threading.Barrier(count)

    def of(self, rank: int) -> Callable[[int], int]:
        def highest(mine: int) -> int:
            self.numbers[rank] = mine
            self.barrier.wait(30)
            found = max(self.numbers)
            self.barrier.wait(30)
            return found

        return highest


@pytest.mark.parametrize(("stop", "ending"), [(False, Ending.RELEASED), (True, Ending.STOPPED)])
def test_one_ranks_release_is_all_ranks(tmp_path: Path, stop: bool, ending: Ending) -> None:
    # As on two machines: each has a run folder of its own, and one of them is released.
    table, ended = Table(2), {}

    def wait(rank: int) -> None:
        folder = tmp_path / str(rank)
        everybit.ledger.RunWriter.open(folder, rank=rank).close()
        pauser = Pauser(
            folder, rank=rank, attempt=0, timeout_s=60, tell=print, highest=table.of(rank)
        )
        ended[rank] = pauser((), step=3)

    threads = [threading.Thread(target=wait, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    wait_for(lambda: list((tmp_path / "1").glob("paused/rank-00001.json")))
    (pause,) = everybit.ledger.pause.list_pauses(tmp_path / "1")
    answer = everybit.ledger.Answer.STOP if stop else everybit.ledger.Answer.GO
    everybit.ledger.pause.answer_pause(tmp_path / "1", pause, answer)
    for thread in threads:
        thread.join(30)
    assert {waited.ending for waited in ended.values()} == {ending}
    assert not [*tmp_path.glob("*/paused/*")]


def test_ranks_wait_where_one_of_them_can_show_it(tmp_path: Path) -> None:
    table, ended, said = Table(2), {}, []
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "paused").write_text("in the way")
    (tmp_path / "1").mkdir()

    def wait(rank: int) -> None:
        pauser = Pauser(
            tmp_path / str(rank), rank=rank, attempt=0, timeout_s=0.3, tell=said.append,
            highest=table.of(rank),
        )  # fmt: skip
        ended[rank] = pauser((), step=3)

    threads = [threading.Thread(target=wait, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {waited.ending for waited in ended.values()} == {Ending.TIMEOUT}
    assert min(waited.seconds for waited in ended.values()) >= 0.3


SCRIPT = """
    import ctypes, torch
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 300)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(4):
        if step == 2:
            byte = ctypes.c_ubyte.from_address(model.weight.data_ptr() + 4 * 777)
            byte.value ^= 0x08
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained")
"""

DDP = """
    import ctypes, hashlib, sys
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import everybit

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 300)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    folder = "shared" if sys.argv[1] == "shared" else f"apart-{rank}"
    with everybit.Guard(ddp, optimizer, run=folder, on_finding="pause") as guard:
        for step in range(6):
            optimizer.zero_grad()
            ddp(torch.randn(8, 20)).square().mean().backward()
            if rank == 1 and step == 3:
                byte = ctypes.c_ubyte.from_address(model.weight.data_ptr() + 4 * 777)
                byte.value ^= 0x01
            optimizer.step()
    print(guard.step, guard.stats.get("paused_seconds", 0) > 0)
    dist.barrier()
    dist.destroy_process_group()
"""

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


def ranks(folders: str) -> list[Job]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return [
        Job(
            name=f"{folders}-job-{rank}",
            script=["ddp.py", folders],
            environment={
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            },
        )
        for rank in range(2)
    ]  # fmt: skip


@dataclass(frozen=True)
class Scripts:
    """Scripts that were paused, and what became of them."""

    place: Path
    done: dict[str, tuple[int, str, str]]
    releasers: dict[str, Releaser]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Scripts:
    place = tmp_path_factory.mktemp("scripts")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    (place / "ddp.py").write_text(textwrap.dedent(DDP))
    names = ["released", *(number.name for number in SIGNALS)]
    options = ["--on-finding", "pause", "--run"]
    jobs = [
        Job(name=name, options=["run", *options, f"run-{name}"], script=["train.py"])
        for name in names
    ]
    releasers = {
        "released": Releaser(place / "run-released", by="command line"),
        "shared": Releaser(place / "shared", count=2),
        # The rank that found nothing is released.
        "apart": Releaser(place / "apart-0"),
        **{n.name: Releaser(place / f"run-{n.name}", by=n) for n in SIGNALS},
    }
    done = run_forked(place, jobs, [*ranks("shared"), *ranks("apart")])
    for releaser in releasers.values():
        releaser.join(10)
    return Scripts(place, done, releasers)


def test_a_script_is_released_from_the_command_line(scripts: Scripts) -> None:
    told = scripts.releasers["released"].told
    assert (told.returncode, told.stdout) == (0, "")
    assert told.stderr == "everybit: rank 0, paused at step 2 by MEM601, goes on\n"
    code, out, err = scripts.done["released"]
    assert (code, out) == (0, "trained\n")
    assert "released: the job goes on" in err


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_do_to_a_paused_job_what_they_always_do(
    scripts: Scripts, number: signal.Signals
) -> None:
    folder = scripts.place / f"run-{number.name}"
    assert scripts.done[number.name][0] == -number
    run = everybit.open_run(folder)
    assert run.pauses == ()
    with pytest.raises(UsageError, match=r"nothing is paused|the process is gone"):
        everybit.release(folder)
    verdict = verdict_of_run(run)
    assert {finding.rule for finding in verdict.findings} == {"MEM601", "RUN151"}
    if number == signal.SIGINT:
        assert list((folder / "paused").iterdir()) == []
        assert "KeyboardInterrupt" in run.log().end.detail


@pytest.mark.parametrize("folders", ["shared", "apart"])
def test_two_ranks_wait_and_go_on_together(scripts: Scripts, folders: str) -> None:
    for rank in range(2):
        code, out, err = scripts.done[f"{folders}-job-{rank}"]
        assert (code, out) == (0, "6 True\n"), err
    pauses = scripts.releasers[folders].pauses
    rules = {pause.rank: pause.rule for pause in pauses}
    assert rules == ({0: "", 1: "MEM601"} if folders == "shared" else {0: ""})
    assert {pause.step for pause in pauses} == {3}
