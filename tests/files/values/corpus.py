"""Small models trained for real, and ways to damage their files on disk blocks."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F  # noqa: N812

from everybit.drill.gpt import GPT, GPTConfig
from everybit.drill.training import Recipe, train
from everybit.files import read_tensors

PAGE = 4096


@functools.cache
def trained_gpt(optimizer: str = "AdamW") -> tuple[dict, dict]:
    """State dicts of a GPT after sixty updates, and of its optimizer."""
    config = GPTConfig(layers=2, width=96, heads=4, context=32)
    text = torch.frombuffer(bytearray(Path(nn.functional.__file__).read_bytes()), dtype=torch.uint8)
    torch.manual_seed(0)
    model = GPT(config)
    made = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)
    train(Recipe(model=config, batch=4, steps=60), text, model, made)
    return {name: value.clone() for name, value in model.state_dict().items()}, made.state_dict()


@functools.cache
def trained_cnn() -> tuple[dict, dict]:
    """State dicts of a CNN with BatchNorm and dead inputs after thirty updates, and of RMSprop."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 48, 3, 2),
        nn.BatchNorm2d(48), nn.ReLU(), nn.Flatten(), nn.Linear(48 * 36, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.RMSprop(model.parameters())
    for _ in range(30):
        images = torch.rand(8, 3, 31, 31)
        images[:, :, :6] = 0
        labels = torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return dict(model.state_dict()), optimizer.state_dict()


def flat_state(state: dict) -> dict[str, torch.Tensor]:
    """The tensors of an optimizer's state dict by dotted name."""
    return {
        f"{index}.{key}": value.contiguous()
        for index, held in state["state"].items()
        for key, value in held.items()
        if isinstance(value, torch.Tensor)
    }


def cast(weights: dict, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in weights.items()
    }


def save(tensors: dict[str, torch.Tensor], path: Path) -> Path:
    """Save by the path's suffix."""
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    else:
        torch.save(tensors, path)
    return path


def place_of(path: Path, name: str) -> tuple[int, int]:
    return read_tensors(path, digests=False).by_name()[name].byte_ranges[0]


def page_inside(path: Path, name: str, *, block: int = PAGE, number: int = 1) -> int:
    """The offset of a block of the file that lies whole inside a tensor."""
    start, end = place_of(path, name)
    first = (-(-start // block) + number) * block
    assert first + block < end
    return first


def zero(path: Path, start: int, end: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(end - start))


def put(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))
