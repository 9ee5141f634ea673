"""Checkpoints of one run beside each other: stale, torn, swapped, cut; the newest whole one."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.files.checkpoints import runs

import everybit
from everybit.core.finding import Severity
from everybit.report.text import render_verdict


@pytest.fixture
def plain(tmp_path):
    saved = list(runs.states(runs.Run()))
    return saved, runs.save_plain(tmp_path / "c", saved)


@pytest.fixture
def trainer(tmp_path):
    return runs.save_trainer(tmp_path / "t", runs.states(runs.Run()))


def test_a_run_gives_no_finding_and_its_newest(plain, trainer, found):
    _, paths = plain
    assert found(paths[0].parent) == set()
    assert found(trainer[0].parent) == set()
    stats = everybit.verify(trainer[0].parent).stats
    assert stats["newest_whole"] == "checkpoint-40"
    assert stats["whole"] == [f"checkpoint-{step}" for step in (40, 30, 20, 10)]
    assert stats["not_whole"] == {}


# -- stale, torn, swapped


@pytest.mark.parametrize(("index", "severity"), [(2, Severity.ERROR), (3, Severity.WARNING)])
def test_a_torn_snapshot(plain, only, index, severity):
    saved, paths = plain
    torn = copy.deepcopy(saved[index])
    for name in ("0.weight", "0.bias"):
        torn["model"][name] = saved[index - 1]["model"][name]
    torch.save(torn, paths[index])
    finding = only(paths[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", paths[index].name)
    assert finding.evidence["tensors"] == ["model.0.weight", "model.0.bias"]
    assert finding.evidence["equal_to"] == paths[index - 1].name
    assert finding.severity is severity
    assert everybit.verify(paths[0].parent).stats["newest_whole"] == (
        paths[3].name if index == 2 else paths[2].name
    )


def test_moments_of_the_step_before_in_one_file(plain, only):
    saved, paths = plain
    mixed = saved[2] | {"optimizer": copy.deepcopy(saved[1]["optimizer"])}
    torch.save(mixed, paths[2])
    finding = only(paths[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL115", paths[2].name)
    assert finding.evidence["equal_to"] == paths[1].name
    torch.save(saved[2] | {"model": copy.deepcopy(saved[1]["model"])}, paths[2])
    assert only(paths[0].parent).rule == "FIL115"


def test_a_stale_file_among_several(trainer, only):
    shutil.copy(trainer[1] / "model.safetensors", trainer[2] / "model.safetensors")
    finding = only(trainer[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", "checkpoint-30/model.safetensors")
    assert finding.evidence["equal_to"] == "checkpoint-20/model.safetensors"
    assert everybit.verify(trainer[0].parent, level="structure").ok


def test_a_file_of_a_step_further_back(trainer, only):
    shutil.copy(trainer[0] / "model.safetensors", trainer[2] / "model.safetensors")
    finding = only(trainer[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", "checkpoint-30/model.safetensors")


def test_a_stale_shard(tmp_path, only, found):
    torch.manual_seed(0)
    tensors = runs.llama()
    folders = []
    for step in (10, 20, 30):
        tensors = {name: t + 0.01 * torch.randn_like(t) for name, t in tensors.items()}
        folder = tmp_path / f"checkpoint-{step}"
        runs.save_sharded(folder, tensors)
        folders.append(folder)
    assert found(tmp_path) == set()
    stale = "model-00002-of-00003.safetensors"
    shutil.copy(folders[1] / stale, folders[2] / stale)
    finding = only(tmp_path)
    assert (finding.rule, finding.where.path) == ("FIL106", f"checkpoint-30/{stale}")
    stats = everybit.verify(tmp_path).stats
    assert stats["newest_whole"] == "checkpoint-20"
    assert list(stats["not_whole"]) == ["checkpoint-30"]


def test_another_number_of_shards_is_no_finding(tmp_path, found):
    torch.manual_seed(0)
    tensors = {name: torch.randn(60, 50) for name in runs.llama(layers=6)}
    for step, shards in ((10, 2), (20, 3), (30, 5), (40, 1)):
        tensors = {name: t + 0.01 * torch.randn_like(t) for name, t in tensors.items()}
        folder = tmp_path / f"checkpoint-{step}"
        runs.save_sharded(folder, tensors, shards=shards, vocab_size=60, hidden_size=50,
                          intermediate_size=60, num_hidden_layers=6)  # fmt: skip
    assert found(tmp_path) == set()


def test_a_copy_under_another_step(plain, only):
    _, paths = plain
    shutil.copy(paths[1], paths[2])
    finding = only(paths[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", paths[2].name)
    assert paths[1].name in finding.message


def test_two_checkpoints_under_each_others_names(plain, found):
    _, paths = plain
    runs.exchange(paths[1], paths[2])
    for level in ("structure", "full"):
        assert found(paths[0].parent, level=level) == {
            ("FIL106", paths[1].name), ("FIL106", paths[2].name),
        }  # fmt: skip


def test_files_that_are_copies_by_design_are_no_finding(plain, found):
    _, paths = plain
    for name in ("last.ckpt", "best.pt"):
        shutil.copy(paths[3], paths[3].with_name(name))
    assert found(paths[0].parent) == set()


# -- the harmless look-alikes


def continue_with(run, saved, change, steps=(50, 60)):
    change(run)
    return saved + list(runs.states(run, steps))


def freeze(run):
    for parameter in run.model[0].parameters():
        parameter.requires_grad_(False)
        parameter.grad = None
    run.optimizer.param_groups[0]["params"] = list(run.model[1:].parameters())


def test_what_is_frozen_at_first_and_trained_later(tmp_path, found):
    run = runs.Run(optimizer=lambda p: torch.optim.AdamW(p[4:]))
    saved = list(runs.states(run))
    run.optimizer.add_param_group({"params": list(run.model.parameters())[:4]})
    run.schedule = torch.optim.lr_scheduler.LinearLR(run.optimizer)
    saved += list(runs.states(run, (50, 60)))
    paths = runs.save_plain(tmp_path / "c", saved)
    assert found(paths[0].parent) == set()


def test_what_is_frozen_from_some_step_on(tmp_path, found):
    run = runs.Run()
    saved = list(runs.states(run))
    weights = list(run.model[0].parameters())
    before = [p.detach().clone() for p in weights]
    for step in (50, 60, 70):
        run.train(step - run.step)
        with torch.no_grad():
            for p, old in zip(weights, before, strict=True):
                p.copy_(old)
        saved.append(run.state())
    paths = runs.save_plain(tmp_path / "c", saved)
    assert found(paths[0].parent) == set()


def test_a_rate_of_zero_moves_nothing(tmp_path, found):
    run = runs.Run()
    saved = list(runs.states(run))
    for group in saved[-1]["optimizer"]["param_groups"]:
        group["lr"] = 0.0
    moved_on = next(iter(runs.states(run, (50,))))["optimizer"]
    for group in moved_on["param_groups"]:
        group["lr"] = 0.0
    last = copy.deepcopy(saved[-1]) | {"step": 50, "optimizer": moved_on}
    paths = runs.save_plain(tmp_path / "c", [*saved, last])
    assert found(paths[0].parent) == set()


def test_small_half_precision_weights_may_stand_still(tmp_path, found):
    saved = []
    for state in runs.states(runs.Run()):
        model = {name: tensor.bfloat16() for name, tensor in state["model"].items()}
        model["1.weight"] = torch.ones(24, dtype=torch.bfloat16)
        saved.append({"model": model, "step": state["step"]})
    saved[0]["model"]["1.weight"] += 0.5
    paths = runs.save_plain(tmp_path / "c", saved)
    assert found(paths[0].parent) == set()


def test_a_restart_of_the_optimizer_is_no_finding(tmp_path, found):
    run = runs.Run()
    saved = list(runs.states(run, (10, 20, 30)))
    run.optimizer = torch.optim.AdamW(run.model.parameters(), 1e-2)
    run.schedule = torch.optim.lr_scheduler.LinearLR(run.optimizer)
    saved += list(runs.states(run, (40, 50)))
    paths = runs.save_plain(tmp_path / "c", saved)
    assert found(paths[0].parent) == set()


def test_accumulation_and_epochs_in_the_name(tmp_path, found):
    folder = tmp_path / "c"
    folder.mkdir()
    for epoch, state in enumerate(runs.states(runs.Run(), (10, 20, 30, 40))):
        torch.save(state | {"epoch": epoch, "step": 3}, folder / f"epoch_{epoch}.pth")
    assert found(folder) == set()


def test_models_of_folds_are_not_compared(tmp_path, found):
    for fold in range(4):
        torch.save(runs.network(0).state_dict(), tmp_path / f"fold_{fold}.pt")
    verdict = everybit.verify(tmp_path)
    assert not verdict.findings
    assert "newest_whole" not in verdict.stats


# -- averages


def test_an_average_that_never_moved(tmp_path, found):
    run = runs.Run(average_from=1000)
    paths = runs.save_plain(tmp_path / "c", runs.states(run))
    (finding,) = everybit.verify(paths[0].parent).findings
    assert (finding.rule, finding.severity) == ("FIL115", Severity.WARNING)
    assert finding.where.tensor.startswith("ema.")
    assert "never moved" in finding.message


def test_an_average_that_begins_late_is_no_finding(tmp_path, found):
    run = runs.Run(average_from=35)
    paths = runs.save_plain(tmp_path / "c", runs.states(run))
    assert found(paths[0].parent) == set()


def test_an_average_that_counts_and_does_not_move_is_an_error(tmp_path):
    saved = list(runs.states(runs.Run(average_from=1000)))
    for state in saved:
        state["ema"] = {"shadow": state["ema"], "num_updates": state["step"]}
    paths = runs.save_plain(tmp_path / "c", saved)
    (finding,) = everybit.verify(paths[0].parent).findings
    assert finding.severity is Severity.ERROR
    assert finding.evidence["counted_on"] == {"ema.num_updates": 40.0}


def test_an_average_that_was_reset(tmp_path):
    run = runs.Run()
    saved = list(runs.states(run, (10, 20)))
    run.train(10)
    run.average.load_state_dict(run.model.state_dict())
    saved.append(run.state())
    saved += list(runs.states(run, (40,)))
    paths = runs.save_plain(tmp_path / "c", saved)
    (finding,) = everybit.verify(paths[0].parent).findings
    assert (finding.rule, finding.where.path) == ("FIL115", paths[2].name)
    assert finding.evidence["lagged_in"] == paths[1].name


# -- sizes and missing parts


def test_a_checkpoint_that_lacks_tensors(plain, only):
    saved, paths = plain
    for index in (2, 3):
        less = copy.deepcopy(saved[index])
        less["optimizer"]["state"] = {}
        torch.save(less, paths[index])
        finding = only(paths[0].parent)
        assert (finding.rule, finding.where.path) == ("FIL111", paths[index].name)
        assert finding.evidence["num_missing"] > 8
        torch.save(saved[index], paths[index])


def test_sizes_that_differ_and_are_no_finding(tmp_path, found):
    run = runs.Run()
    first = run.state()
    paths = runs.save_plain(tmp_path / "a", [first, *runs.states(run)])  # no moments at step 0
    assert found(paths[0].parent) == set()
    saved = list(runs.states(runs.Run()))
    for number, state in enumerate(saved):
        state["history"] = torch.randn(1000 * number)
    paths = runs.save_plain(tmp_path / "b", saved)  # grows
    assert found(paths[0].parent) == set()
    paths = runs.save_plain(tmp_path / "c", runs.states(runs.Run()))
    torch.save({"lora_A": torch.randn(9, 9)}, tmp_path / "c" / "ckpt_35.pt")
    assert found(paths[0].parent) == set()


def test_what_the_newest_lacks(trainer, only):
    (trainer[3] / "optimizer.pt").unlink()
    for level in ("structure", "full"):
        finding = only(trainer[0].parent, level=level)
        assert (finding.rule, finding.where.path) == ("FIL103", "checkpoint-40/optimizer.pt")
        assert finding.severity is Severity.WARNING
    stats = everybit.verify(trainer[0].parent).stats
    assert stats["newest_whole"] == "checkpoint-30"
    assert "optimizer.pt" in stats["not_whole"]["checkpoint-40"]


def test_older_ones_are_thinned_out_on_purpose(trainer, found):
    for place in trainer[:3]:
        (place / "optimizer.pt").unlink()
    assert found(trainer[0].parent) == set()
    (trainer[0] / "scheduler.pt").unlink()
    assert found(trainer[0].parent) == set()
    assert "checkpoint-10" in everybit.verify(trainer[0].parent).stats["not_whole"]


def test_a_save_that_has_not_ended(trainer):
    trainer[3].rename(trainer[3].with_name("tmp-checkpoint-40"))
    stats = everybit.verify(trainer[0].parent).stats
    assert stats["newest_whole"] == "checkpoint-30"


def test_a_damaged_newest_is_named_and_the_one_before_it_recommended(trainer):
    path = trainer[3] / "optimizer.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    verdict = everybit.verify(trainer[0].parent)
    assert [f.rule for f in verdict.findings] == ["FIL108"]
    assert verdict.stats["newest_whole"] == "checkpoint-30"
    assert "FIL108" in verdict.stats["not_whole"]["checkpoint-40"]


def test_only_the_newest_are_compared_and_the_rest_is_said(tmp_path):
    run = runs.Run()
    paths = runs.save_plain(tmp_path / "c", runs.states(run, range(1, 12)))
    verdict = everybit.verify(paths[0].parent)
    assert verdict.ok
    (skipped,) = verdict.coverage.skipped
    assert not skipped.promised
    assert "3 older siblings" in skipped.what
    counts = {item.what: item.count for item in verdict.coverage.checked}
    assert counts["siblings compared"] == 8


def test_files_of_one_step_belong_together(tmp_path, found):
    run = runs.Run()
    for state in runs.states(run):
        torch.save(state["model"], tmp_path / f"model_{state['step']:06d}.pt")
        torch.save(state["optimizer"], tmp_path / f"optim_{state['step']:06d}_rank0.pt")
    assert found(tmp_path) == set()
    shutil.copy(tmp_path / "optim_000020_rank0.pt", tmp_path / "optim_000030_rank0.pt")
    assert found(tmp_path) == {("FIL106", "optim_000030_rank0.pt")}
    (tmp_path / "optim_000040_rank0.pt").unlink()
    assert ("FIL103", "optim_000040_rank0.pt") in found(tmp_path)


def test_safetensors_are_read_once_more_and_never_written(trainer):
    before = {p: p.stat().st_mtime_ns for p in trainer[0].parent.rglob("*") if p.is_file()}
    everybit.verify(trainer[0].parent)
    assert before == {p: p.stat().st_mtime_ns for p in before}
    tensors = load_file(trainer[0] / "model.safetensors")
    save_file(tensors, trainer[0] / "model.safetensors")


def test_the_text_says_which_to_resume_from(trainer):
    (trainer[3] / "optimizer.pt").unlink()
    text = render_verdict(everybit.verify(trainer[0].parent), color=False, verbose=False)
    lines = text.splitlines()
    assert "Newest whole checkpoint-30 (and 2 older)" in lines
    assert any(line.startswith("Not whole    checkpoint-40: FIL103") for line in lines)
    assert "newest_whole" not in text
    for place in trainer[:3]:
        (place / "model.safetensors").unlink()
        (place / "optimizer.pt").write_bytes(b"")
    (trainer[3] / "scheduler.pt").write_bytes(b"")
    verdict = everybit.verify(trainer[0].parent)
    assert verdict.stats["newest_whole"] is None
    assert "Newest whole none" in render_verdict(verdict, color=False, verbose=False)


def test_a_later_one_under_an_earlier_name_is_not_blamed(plain, only):
    _, paths = plain
    shutil.copy(paths[1], paths[0])
    finding = only(paths[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", paths[0].name)
    assert finding.evidence["equal_to"] == paths[1].name
