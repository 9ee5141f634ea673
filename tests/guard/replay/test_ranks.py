"""Replay on two DDP ranks over gloo: the same bits, no call that speaks is made again by one."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from tests.forked import run_forked
from tests.guard.test_ranks import digests, ranks

import everybit

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import contextlib, ctypes, hashlib, sys
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit

    class Speaks(torch.nn.Module):
        def forward(self, x):
            total = x.detach().sum()
            dist.all_reduce(total)
            return x + total

    kind, out = sys.argv[1:]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    parts = [torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.1)]
    if kind == "speaks":
        parts.append(Speaks())
    model = torch.nn.Sequential(*parts, torch.nn.Linear(64, 30))
    ddp = DDP(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(ddp.parameters())
    torch.manual_seed(100 + rank)
    watch = contextlib.nullcontext()
    if kind != "bare":
        options = dict(on_finding="record", replay_every=1)
        watch = everybit.Guard(ddp, optimizer, run=f"run-{kind}", **options)
    digest = hashlib.sha256()
    right, armed = torch.nn.Linear.forward, []

    def once(self, x):
        output = right(self, x)
        if armed and self is model[0]:
            armed.clear()
            ctypes.c_ubyte.from_address(output.data_ptr() + 4 * 77 + 2).value ^= 0x40
        return output

    torch.nn.Linear.forward = once

    with watch:
        for step in range(5):
            if kind == "fault" and rank == 1 and step == 3:
                armed.append(True)
            optimizer.zero_grad()
            with ddp.no_sync():
                ddp(torch.randn(8, 20)).square().mean().backward()
            loss = ddp(torch.randn(8, 20)).square().mean()
            loss.backward()
            optimizer.step()
            digest.update(loss.item().hex().encode())
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    open(f"{out}.{rank}", "w").write(digest.hexdigest())
    dist.barrier()
    dist.destroy_process_group()
"""


def test_replay_under_ddp(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    kinds = ("bare", "clean", "fault", "speaks")
    ended = run_forked(tmp_path, *(ranks(kind, [], kind) for kind in kinds), at_once=2)
    assert {code for code, _, _ in ended.values()} == {0}, ended
    assert digests(tmp_path, "clean") == digests(tmp_path, "bare")
    clean, fault, speaks = (
        [everybit.open_run(tmp_path / f"run-{kind}").log(rank) for rank in (0, 1)]
        for kind in kinds[1:]
    )
    for log in (*clean, *speaks):
        assert log.findings == ()
    assert all(whys_of(log) == [] for log in clean)
    assert all("speaks with other ranks" in whys_of(log)[0] for log in speaks)
    (found,) = (each for each in fault[1].findings if each.rule == "CMP701")
    assert (found.where.rank, found.where.step, found.where.module) == (1, 3, "0")
    assert found.where.elements == (77,)
    # The part was computed on the other rank too, which came to what the repeats came to.
    says = found.evidence["elsewhere"]["rank 0 (cpu)"]
    assert (says["first"], says["repeats"], says["proven"]) == ("wrong", "may be right", True)
    assert found.evidence["computations_that_agree"] == 4
    assert "rank 0 (cpu) agrees with the repeats" in found.message
    assert not any(each.rule == "CMP701" for each in fault[0].findings)


def whys_of(log: Any) -> list[str]:
    return [each.why for each in log.coverage.skipped if each.what.endswith("a model again")]
