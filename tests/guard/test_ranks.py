"""Two DDP ranks on gloo in one run folder: the same bits, and a fault is its rank's own."""

from __future__ import annotations

import json
import socket
import textwrap
from typing import TYPE_CHECKING

from tests.forked import Job, run_forked

import everybit

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import ctypes, hashlib, sys
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    import contextlib, everybit

    order, fault, explicit, out = sys.argv[1:]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 300)
    )
    if order == "optimizer-first":
        optimizer = torch.optim.AdamW(model.parameters())
    ddp = DDP(model, gradient_as_bucket_view=True)
    if order == "ddp-first":
        optimizer = torch.optim.AdamW(ddp.parameters())
    torch.manual_seed(100 + rank)
    watch = contextlib.nullcontext()
    if explicit == "guard":
        watch = everybit.Guard(ddp, optimizer, run="run", on_finding="heal")
    digest = hashlib.sha256()
    with watch:
        for step in range(6):
            if fault == "fault" and rank == 1 and step == 4:
                byte = ctypes.c_ubyte.from_address(model[3].weight.data_ptr() + 4 * 777 + 3)
                byte.value ^= 0x40
            optimizer.zero_grad()
            if step % 3 == 2:
                with ddp.no_sync():
                    ddp(torch.randn(8, 20)).square().mean().backward()
            loss = ddp(torch.randn(8, 20)).square().mean()
            loss.backward()
            optimizer.step()
            digest.update(loss.item().hex().encode())
            if step == 2:
                # A collective writes into a parameter, past its version counter.
                dist.broadcast(model[0].bias.detach(), src=0)
    moments = [tensor for state in optimizer.state.values() for tensor in state.values()]
    for tensor in [*model.state_dict().values(), *moments]:
        digest.update(tensor.numpy().tobytes())
    open(f"{out}.{rank}", "w").write(digest.hexdigest())
    dist.barrier()
    dist.destroy_process_group()
"""


def ranks(name: str, options: list[str], *args: str) -> list[Job]:
    """Two ranks as torchrun would start them."""
    port = free_port()
    return [
        Job(
            name=f"{name}-{rank}",
            options=options,
            script=["train.py", *args, name],
            environment={
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(2)
    ]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def digests(place: Path, name: str) -> list[str]:
    return [(place / f"{name}.{rank}").read_text() for rank in range(2)]


def test_two_ranks_one_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    ended = run_forked(
        tmp_path,
        ranks("bare", [], "ddp-first", "none", "bare"),
        ranks("found", ["run", "--on-finding", "heal"], "optimizer-first", "fault", "bare"),
        ranks("given", [], "ddp-first", "fault", "guard"),
    )
    assert {code for code, _, _ in ended.values()} == {0}, ended
    bare = digests(tmp_path, "bare")
    assert bare[0] != bare[1]  # each rank has its own losses

    # Found by `everybit run`, wrapped after the optimizer was built; both ranks find one folder.
    assert digests(tmp_path, "found") == bare
    (folder,) = (tmp_path / "everybit-runs").iterdir()
    record = everybit.open_run(folder)
    assert record.damage == ()
    assert record.ranks == [0, 1]
    for rank in (0, 1):
        assert record.log(rank).num_steps == 6
    assert record.log(0).findings == ()
    (finding,) = record.log(1).findings
    assert (finding.where.rank, finding.where.step, finding.where.parameter) == (1, 4, "3.weight")
    assert finding.where.elements == (777,)
    assert finding.evidence["healed"]
    assert not finding.evidence["tainted"]
    verdict = json.loads((folder / "verdict.json").read_text())
    assert [found["where"]["rank"] for found in verdict["findings"]] == [1]

    # Given the wrapped model.
    assert digests(tmp_path, "given") == bare
    record = everybit.open_run(tmp_path / "run")
    assert [len(record.log(rank).findings) for rank in (0, 1)] == [0, 1]
    for rank in (0, 1):
        coverage = record.log(rank).coverage
        assert coverage is not None
        # Batch norm takes the statistics of each rank's own batch.
        (skipped,) = coverage.skipped
        assert skipped.what == "2 tensors (1.running_mean ...) across ranks"
        assert not skipped.promised
