"""Policies, cadence, nesting, and leaving everything as it was."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, flip, loss_of, places_of, train_step
from torch import nn

import everybit
from everybit import EverybitError, StoppedError, UsageError
from everybit.core.verdict import Status

if TYPE_CHECKING:
    from pathlib import Path


def damaged_run(path: Path, caplog: Any, num_flips: int = 1, **settings: Any) -> Any:
    """Four steps, with flips before the third; returns the guard, the bits, and those planted."""
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=path / "run", **settings)
    caplog.clear()
    with guard:
        for step in range(4):
            if step == 2:
                for place in list(places_of(model))[:num_flips]:
                    flip(place.tensor, 1, 30)
            train_step(model, optimizer)
    return guard, bits_of(model, optimizer)


def clean_bits(steps: int = 4) -> list[bytes]:
    model, optimizer = build()
    for _ in range(steps):
        train_step(model, optimizer)
    return bits_of(model, optimizer)


def test_record_says_nothing_and_changes_nothing(tmp_path: Path, caplog: Any) -> None:
    guard, bits = damaged_run(tmp_path, caplog, on_finding="record")
    assert caplog.messages == []
    (finding,) = everybit.open_run(guard.path).log().findings
    assert finding == guard.findings[0]
    assert not finding.evidence["healed"]
    assert bits != clean_bits()
    assert guard.verdict.status is Status.FINDINGS


def test_warn_logs_one_line_a_finding(tmp_path: Path, caplog: Any) -> None:
    guard, _ = damaged_run(tmp_path, caplog, num_flips=2)
    assert len(guard.findings) == len(caplog.messages) == 2
    for finding, line in zip(guard.findings, caplog.messages, strict=True):
        assert line == f"everybit: MEM601 {finding.message}"
        assert "\n" not in line


def test_warn_folds_many(tmp_path: Path, caplog: Any) -> None:
    guard, _ = damaged_run(tmp_path, caplog, num_flips=9)
    assert len(guard.findings) == 9
    assert len(caplog.messages) == 6
    assert caplog.messages[-1] == "everybit: and 4 more at this step"


def test_heal_puts_back_and_logs(tmp_path: Path, caplog: Any) -> None:
    _, bits = damaged_run(tmp_path, caplog, on_finding="heal")
    assert bits == clean_bits()
    assert len(caplog.messages) == 1


def test_stop_raises_out_of_the_loop(tmp_path: Path, caplog: Any) -> None:
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="stop")
    message = r"MEM601 0\.weight changed at rest before step 2"
    with pytest.raises(StoppedError, match=message), guard:  # noqa: PT012
        for step in range(4):
            if step == 2:
                flip(model[0].weight, 1, 30)
                flip(model[0].bias, 1, 30)
            train_step(model, optimizer)
    assert guard.step == 2
    log = everybit.open_run(guard.path).log()
    assert len(log.findings) == 2
    assert log.end is not None
    assert log.end.reason == "stopped"
    assert guard.stats["stopped"]
    assert len(caplog.messages) == 1  # the second; the first is the error
    train_step(model, optimizer)  # unhooked


@pytest.mark.parametrize("moment", ["between forward and step", "state_dict", "end"])
def test_stop_at_other_moments(moment: str, tmp_path: Path) -> None:
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="stop")
    reached = False
    with pytest.raises(StoppedError), guard:  # noqa: PT012
        train_step(model, optimizer)
        loss = loss_of(model)
        flip(model[0].weight, 1, 30)
        if moment == "between forward and step":
            loss.backward()
            optimizer.step()
            reached = True
        elif moment == "state_dict":
            model.state_dict()
            reached = True
    assert not reached
    assert everybit.open_run(guard.path).log().end.reason == "stopped"
    assert not guard._watch.boundaries.inside


def test_a_loop_that_swallows_the_stop_is_stopped_again(tmp_path: Path) -> None:
    model, optimizer = build()
    stops = 0
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="stop") as guard:
        for step in range(6):
            if step in (2, 4):
                flip(model[0].weight, 1, 30)
            try:
                train_step(model, optimizer)
            except EverybitError:
                stops += 1
    assert stops == 2
    assert guard.step == 4


# --- cadence


@pytest.mark.parametrize("every", [2, 3])
def test_every_nth_step_is_checked_and_the_rest_is_not_claimed(every: int, tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", every=every, on_finding="heal"
    ) as guard:
        for step in range(12):
            if step >= every:
                for place in list(places_of(model, optimizer))[: 6 + 3]:
                    flip(place.tensor, 0, 2)
                flip(optimizer.state[model[0].bias]["exp_avg"], 0, 2)
            train_step(model, optimizer)
    checked = [step for step in range(12) if step >= every and step % every == 0]
    assert sorted({f.where.step for f in guard.findings}) == checked
    assert len(guard.findings) == 10 * len(checked)
    log = everybit.open_run(guard.path).log()
    assert [step.step for step in log.steps()] == [s for s in range(12) if s % every == 0]
    (skipped,) = guard.coverage.skipped
    assert f"every={every}" in skipped.why
    assert not skipped.promised


def test_a_clean_run_with_a_cadence_is_clean(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", every=3) as guard:
        for step in range(10):
            train_step(model, optimizer)
            model[1](torch.randn(4, 64))
            if step == 4:
                guard.rebaseline()
            if step == 5:
                model[0].weight.data.mul_(0.5)
            model.state_dict()
    assert guard.findings == ()
    assert guard.verdict.ok


# --- on purpose


def test_rebaseline_accepts_what_is_there_and_no_more(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        train_step(model, optimizer)
        model[0].weight.detach().numpy()[:] = 0.5
        guard.rebaseline()
        flip(model[0].weight, 70, 3)
        train_step(model, optimizer)
        assert len(guard.findings) == 1
        assert guard.findings[0].where.elements == (70,)
    before, after = guard.findings[0].evidence["changes"][0].values(), 0.5
    assert after in before


def test_rebaseline_outside_does_nothing(tmp_path: Path) -> None:
    guard = everybit.Guard(*build(), run=tmp_path / "run")
    guard.rebaseline()
    with guard:
        pass
    guard.rebaseline()


# --- entering and leaving


def attributes() -> dict[str, Any]:
    import torch.distributed as dist

    holders = [
        torch, torch.autograd, torch.Tensor, torch.nn.Module, torch.nn.DataParallel,
        torch.optim.Optimizer, torch.amp.GradScaler, dist, dist.ProcessGroup,
        torch.nn.parallel.DistributedDataParallel, dist.distributed_c10d,
    ]  # fmt: skip
    return {
        f"{getattr(h, '__name__', h)}.{k}": v
        for h in holders
        for k, v in vars(h).items()
        if k not in ("__dict__", "__weakref__", "__warningregistry__")
    }


@pytest.mark.parametrize("how", ["clean", "exception", "exit", "interrupt", "stop"])
def test_everything_is_left_as_it_was(how: str, tmp_path: Path) -> None:
    model, optimizer = build()
    train_step(model, optimizer)  # what torch imports on the first step
    optimizers = sys.modules["torch.optim.optimizer"]
    before = attributes()
    hooks = [
        len(optimizers._global_optimizer_pre_hooks),
        len(optimizers._global_optimizer_post_hooks),
    ]
    of_model = {k: copy_of(v) for k, v in vars(model).items()}
    of_optimizer = {k: copy_of(v) for k, v in vars(optimizer).items() if k != "state"}
    errors = {
        "clean": None, "exception": ValueError("theirs"), "exit": SystemExit(2),
        "interrupt": KeyboardInterrupt(),
    }  # fmt: skip
    try:
        with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="stop"):
            during = attributes()
            assert {k for k in during if during[k] is not before.get(k)} > {
                "Tensor.data", "torch.autograd.backward", "Optimizer.state_dict",
            }  # fmt: skip
            train_step(model, optimizer)
            if how == "stop":
                flip(model[0].weight, 0, 0)
                train_step(model, optimizer)
            if errors[how] is not None:
                raise errors[how]
    except (ValueError, SystemExit, KeyboardInterrupt, StoppedError) as error:
        raised = error
    assert how in ("clean", "stop") or raised is errors[how]
    after = attributes()
    assert after.keys() == before.keys()
    assert [k for k in after if after[k] is not before[k]] == []
    assert hooks == [
        len(optimizers._global_optimizer_pre_hooks), len(optimizers._global_optimizer_post_hooks),
    ]  # fmt: skip
    assert {k: copy_of(v) for k, v in vars(model).items()} == of_model
    assert {k: copy_of(v) for k, v in vars(optimizer).items() if k != "state"} == of_optimizer


def copy_of(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def test_signatures_show_through(tmp_path: Path) -> None:
    wanted = [
        inspect.signature(f)
        for f in (torch.autograd.backward, torch.compile, torch.optim.Optimizer.__init__)
    ]
    with everybit.Guard(run=tmp_path / "run"):
        assert wanted == [
            inspect.signature(f)
            for f in (torch.autograd.backward, torch.compile, torch.optim.Optimizer.__init__)
        ]


@pytest.mark.parametrize("order", ["inner first", "outer first"])
def test_nested_guards_both_see(order: str, tmp_path: Path) -> None:
    model, optimizer = build()
    before = attributes()
    outer = everybit.Guard(model, optimizer, run=tmp_path / "a", on_finding="record")
    inner = everybit.Guard(model, optimizer, run=tmp_path / "b", on_finding="record")
    outer.__enter__()
    inner.__enter__()
    train_step(model, optimizer)
    flip(model[0].weight, 5, 5)
    train_step(model, optimizer)
    first, second = (inner, outer) if order == "inner first" else (outer, inner)
    first.__exit__(None, None, None)
    flip(model[0].weight, 5, 5)
    train_step(model, optimizer)
    second.__exit__(None, None, None)
    assert (len(first.findings), len(second.findings)) == (1, 2)
    train_step(model, optimizer)
    assert (first.step, second.step) == (2, 3)
    if order == "inner first":
        after = attributes()
        assert [k for k in after if after[k] is not before.get(k)] == []
        assert "_compiled_call_impl" not in vars(model)


def test_a_guard_watches_once(tmp_path: Path) -> None:
    guard = everybit.Guard(*build(), run=tmp_path / "run")
    with guard:
        pass
    with pytest.raises(UsageError, match="once"), guard:
        pass


def test_only_modules_and_optimizers_are_watched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="str is neither"):
        everybit.Guard("model", run=tmp_path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    holders = build()  # The first optimizer of a process imports more of torch.
    before = attributes()
    with pytest.raises(everybit.UsageError), everybit.Guard(*holders, run=tmp_path / "file" / "r"):
        pass
    assert attributes() == before


# --- faults of its own


def raising(*_: Any, **__: Any) -> None:
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize(
    "where",
    [
        "everybit.guard.at_rest.AtRestCheck.__call__",
        "everybit.guard.record.RecordCheck.__call__",
        "everybit.guard.state.CarriedState.mark_updated",
        "everybit.guard.state.find_damage",
        "everybit.guard.marks.Marks.compare",
        "everybit.guard.journal.Journal.step",
        "everybit.guard.watch.Watch._add",
        "everybit.guard.watch.roots_of",
    ],
)
def test_a_fault_of_its_own_never_harms_the_job(
    where: str, tmp_path: Path, caplog: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(where, raising)
    with everybit.Guard(run=tmp_path / "run", on_finding="stop") as guard:
        model, optimizer = build()
        for step in range(4):
            train_step(model, optimizer)
            if where.endswith("find_damage") and step == 2:
                flip(model[3].bias, 3, 0)
                flip(model[3].bias, 3, 0)
                flip(model[0].bias, 3, 0)
                with torch.no_grad():
                    loss_of(build_same(model))
    if not where.endswith("find_damage"):
        assert bits_of(model, optimizer) == clean_bits()
    told = [line for line in caplog.messages if "fault of its own" in line]
    assert len(told) == 1
    assert "ZeroDivisionError: planted" in told[0]
    assert guard.verdict.status is Status.INCONCLUSIVE
    assert any(
        s.promised and "everybit's own" in s.why and "planted" in s.why
        for s in guard.verdict.coverage.skipped
    )
    assert everybit.open_run(guard.path).log().end.reason == "clean"


def build_same(model: Any) -> Any:
    return model


# --- letting go


def test_a_sweep_keeps_none_of_its_models(tmp_path: Path) -> None:
    gone = []
    with everybit.Guard(run=tmp_path / "run") as guard:
        for _ in range(4):
            model, optimizer = build()
            for _ in range(2):
                model[0].weight.data.mul_(0.5)
                train_step(model, optimizer)
            things = (
                model,
                optimizer,
                model[3].weight,
                optimizer.state[model[3].weight]["exp_avg"],
            )
            gone.append([weakref.ref(thing) for thing in things])
            del model, optimizer, things
        fresh, adam = build()
        gc.collect()
        train_step(fresh, adam)
        gc.collect()
        assert [[ref() is None for ref in refs] for refs in gone] == [[True] * 4] * 4
        flip(fresh[3].weight, 3, 0)
        train_step(fresh, adam)
    (finding,) = guard.findings
    assert finding.where.parameter == "3.weight"
    assert finding.where.module is None
    assert guard.stats["tensors"] == 27


def test_an_optimizer_that_goes_leaves_the_model_under_test(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(run=tmp_path / "run", on_finding="heal") as guard:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train_step(model, optimizer)
        del optimizer
        gc.collect()
        model.eval()
        loss_of(model)
        flip(model[3].weight, 3, 0)
        loss_of(model)
    assert len(guard.findings) == 1


# --- what is told


def test_what_shares_memory_with_other_processes_is_not_tested_and_told(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        train_step(model, optimizer)
        model.share_memory()
        train_step(model, optimizer)
        context = torch.multiprocessing.get_context("fork")
        child = context.Process(target=write_ones, args=(model,))
        child.start()
        child.join()
        assert model[0].bias.eq(1).all()
        flip(optimizer.state[model[0].bias]["exp_avg"], 3, 0)
        train_step(model, optimizer)
    (finding,) = guard.findings
    assert finding.where.tensor == "exp_avg"
    reasons = {s.what: s.why for s in guard.coverage.skipped if s.promised}
    assert all("shared with other processes" in why for why in reasons.values())
    assert "0.weight at rest" in reasons


def write_ones(model: Any) -> None:
    with torch.no_grad():
        model[0].bias.fill_(1)


def test_uninitialised_and_released_tensors_are_told(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())
    model.register_buffer("spare", torch.ones(5))
    model.spare.untyped_storage().resize_(0)
    with everybit.Guard(model, run=tmp_path / "run", on_finding="heal") as guard:
        model(torch.ones(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
        flip(model[0].weight, 3, 0)
        flip(model[1].running_mean, 3, 0)
        model(torch.randn(4, 3))
    assert len(guard.findings) == 2
    (skipped,) = [s for s in guard.coverage.skipped if s.promised]
    assert skipped.what == "spare at rest"


def test_a_loop_past_the_root_says_so(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        for step in range(3):
            if step == 2:
                flip(model[3].weight, 3, 0)
            nn.functional.linear(torch.randn(2, 64), model[3].weight).sum().backward()
            optimizer.step()
    (finding,) = guard.findings
    assert finding.evidence["tainted"]
    assert [s.what for s in guard.coverage.skipped] == ["weights before forward"]


def test_another_models_optimizer_is_no_step_of_this_loop(tmp_path: Path) -> None:
    model, optimizer = build()
    other = nn.Linear(3, 3)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    with everybit.Guard(model, run=tmp_path / "run") as guard:
        for _ in range(3):
            train_step(model, optimizer)
            other(torch.ones(1, 3)).sum().backward()
            other_optimizer.step()
    assert guard.step == 3
    assert guard.verdict.ok
