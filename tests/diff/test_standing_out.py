"""One flipped bit among changes that have a cause of their own: rounding, round trips, training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import everybit

PLACE = 777


def noise(values: torch.Tensor, seed: int, size: float = 2e-7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return values * (1 + size * torch.randn(values.shape, generator=generator))


@pytest.fixture
def weights():
    generator = torch.Generator().manual_seed(0)
    return {f"h.{n}.weight": 0.02 * torch.randn(64, 64, generator=generator) for n in range(4)}


def flip(tensor: torch.Tensor, bit: int) -> torch.Tensor:
    words = tensor.contiguous().view({2: torch.int16, 4: torch.int32}[tensor.element_size()])
    flat = words.clone().view(-1)
    mask = np.array(1 << bit, f"u{tensor.element_size()}").view(f"i{tensor.element_size()}")
    flat[PLACE] ^= int(mask)
    return flat.view(tensor.dtype).view(tensor.shape)


def groups(tmp_path, a, b):
    save_file(a, tmp_path / "a.safetensors")
    save_file(b, tmp_path / "b.safetensors")
    verdict = everybit.diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    return verdict, [(g["class"], g["tensors"]) for g in verdict.comparison["groups"]]


@pytest.mark.parametrize("bit", [30, 29, 26, 22, 20])
def test_a_flipped_bit_among_rounding_is_named(tmp_path, weights, bit) -> None:
    other = {name: noise(value, 1) for name, value in weights.items()}
    _, calm = groups(tmp_path, weights, other)
    assert calm == [("rounding", 4)]

    other["h.2.weight"] = flip(other["h.2.weight"], bit)
    verdict, found = groups(tmp_path, weights, other)
    assert found == [("single element", 1), ("rounding", 4)]
    assert verdict.comparison["meaning"] == "damage"
    assert verdict.first.where.tensor == "h.2.weight"
    assert verdict.first.where.elements == (PLACE,)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_flipped_bit_after_a_round_trip_is_named(tmp_path, weights, dtype, back) -> None:
    other = {name: value.to(dtype) for name, value in weights.items()}
    if back:
        other = {name: value.float() for name, value in other.items()}
    _, calm = groups(tmp_path, weights, other)
    assert calm == [("dtype round trip", 4)]

    other["h.2.weight"] = flip(other["h.2.weight"], 18 if back else 2)
    verdict, found = groups(tmp_path, weights, other)
    assert found == [("single element", 1), ("dtype round trip", 4)]
    assert verdict.first.where.elements == (PLACE,)


def test_a_flipped_bit_in_a_training_step_is_named(tmp_path, weights) -> None:
    other = {name: value + 1e-5 * torch.randn(64, 64) for name, value in weights.items()}
    _, calm = groups(tmp_path, weights, other)
    assert calm == [("training step", 4)]

    other["h.2.weight"] = flip(other["h.2.weight"], 24)
    verdict, found = groups(tmp_path, weights, other)
    assert found == [("single element", 1), ("training step", 4)]
    assert verdict.findings[0].evidence["bit"] == 24


def test_one_element_that_moved_further_by_no_bit_is_training(tmp_path, weights) -> None:
    """A unit that alone got a gradient, where weight decay moves the others a little."""
    other = {name: value * (1 - 1e-6) for name, value in weights.items()}
    other["h.2.weight"].view(-1)[PLACE] += 0.00123
    _, found = groups(tmp_path, weights, other)
    assert "single element" not in [name for name, _ in found]


def test_optimizer_state_that_begins_in_one_element_is_training(tmp_path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    with torch.no_grad():
        model[0].weight.abs_().mul_(-1)
        model[0].bias.fill_(-1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    x = torch.ones(4, 8)
    for name in ("a.pt", "b.pt"):
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save({"m": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / name)
        with torch.no_grad():
            model[0].bias[42] = 9.0
            model[0].weight[42] = 0.0
    state = torch.load(tmp_path / "a.pt")
    torch.save({**state, "m": torch.load(tmp_path / "b.pt")["m"]}, tmp_path / "a.pt")
    # The weights of b are those of a: only the state moved, in the sums of one element.
    moved = torch.load(tmp_path / "b.pt")
    moved["optimizer"]["state"][1]["sum"] = state["optimizer"]["state"][1]["sum"].clone()
    moved["optimizer"]["state"][1]["sum"][42] = 8.683e-05
    torch.save(moved, tmp_path / "b.pt")
    verdict = everybit.diff(tmp_path / "a.pt", tmp_path / "b.pt")
    assert [g["class"] for g in verdict.comparison["groups"]] == ["training step"]
