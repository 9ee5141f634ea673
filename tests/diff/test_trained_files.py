"""Checkpoints of real training: whatever the optimizer, one training step is one finding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from everybit.api.diff import diff

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adamw, slow": lambda p: torch.optim.AdamW(p, lr=1e-6),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 10),
    )


def train(model, optimizer, num_steps) -> None:
    dtype = next(model.parameters()).dtype
    for _ in range(num_steps):
        optimizer.zero_grad()
        output = model(torch.randn(4, 3, 12, 12).to(dtype))
        nn.functional.cross_entropy(output.float(), torch.randint(0, 10, (4,))).backward()
        optimizer.step()


def classes(verdict) -> list[str]:
    return [finding.evidence["class"] for finding in verdict.findings]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_steps", [1, 30])
def test_training_of_a_network_with_batch_norm(tmp_path, optimizer, num_steps) -> None:
    torch.manual_seed(0)
    model = network()
    stepper = OPTIMIZERS[optimizer](model.parameters())
    train(model, stepper, 1)
    for name, steps in (("a.pt", 0), ("b.pt", num_steps)):
        train(model, stepper, steps)
        state = {"model": model.state_dict(), "optimizer": stepper.state_dict(), "epoch": steps}
        torch.save(state, tmp_path / name)
    verdict = diff(tmp_path / "a.pt", tmp_path / "b.pt")
    assert classes(verdict) == ["training step"]
    assert verdict.comparison["meaning"] == "another model"


def test_slow_training_in_bfloat16_with_and_without_a_counter(tmp_path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10))
    model = nn.Sequential(nn.Flatten(), nn.Linear(432, 32), *model).bfloat16()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.save({"model": model.state_dict(), "epoch": 1}, tmp_path / "a.pt")
    torch.save(model.state_dict(), tmp_path / "a-weights.pt")
    train(model, stepper, 2)
    torch.save({"model": model.state_dict(), "epoch": 2}, tmp_path / "b.pt")
    torch.save(model.state_dict(), tmp_path / "b-weights.pt")
    assert classes(diff(tmp_path / "a.pt", tmp_path / "b.pt")) == ["training step"]
    # Units of the last place are all that two files without a counter show.
    found = classes(diff(tmp_path / "a-weights.pt", tmp_path / "b-weights.pt"))
    assert set(found) <= {"rounding", "training step"}
    assert len(found) == 1


def test_two_seeds_are_two_models(tmp_path) -> None:
    for seed in (0, 1):
        torch.manual_seed(seed)
        torch.save(network().state_dict(), tmp_path / f"{seed}.pt")
    verdict = diff(tmp_path / "0.pt", tmp_path / "1.pt")
    assert classes(verdict) == ["re-initialised"]
    assert verdict.first.kind == "init"


def test_batches_seen_in_training_mode(tmp_path) -> None:
    torch.manual_seed(0)
    model = network()
    torch.save(model.state_dict(), tmp_path / "a.pt")
    for _ in range(3):
        model(torch.randn(4, 3, 12, 12))
    torch.save(model.state_dict(), tmp_path / "b.pt")
    verdict = diff(tmp_path / "a.pt", tmp_path / "b.pt")
    assert classes(verdict) == ["BatchNorm statistics"]
    assert verdict.comparison["meaning"] == "harmless"


def test_a_renamed_key_renames_what_equal_bytes_cannot_pair(tmp_path) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(3)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 16)).square().sum().backward()
        optimizer.step()
    state = optimizer.state_dict()
    a = {"model": model.state_dict(), "optimizer": state}
    torch.save(a, tmp_path / "a.pt")
    torch.save({"model": a["model"], "optim": state}, tmp_path / "b.pt")
    verdict = diff(tmp_path / "a.pt", tmp_path / "b.pt")
    assert [(g["class"], g["tensors"]) for g in verdict.comparison["groups"]] == [("renamed", 18)]
    assert verdict.findings[0].severity == "warning"

    # What was changed as well is compared under its new name, and not missing.
    state["state"][2]["exp_avg"].view(torch.int32).view(-1)[5] ^= 1 << 28
    torch.save({"model": a["model"], "optim": state}, tmp_path / "b.pt")
    verdict = diff(tmp_path / "a.pt", tmp_path / "b.pt")
    found = [(g["class"], g["tensors"]) for g in verdict.comparison["groups"]]
    assert found == [("single element", 1), ("renamed", 17)]
    assert verdict.first.where.elements == (5,)
