"""Checkpoints as training runs write them, small, by code, in the layouts that people have."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 24),
        torch.nn.LayerNorm(24),
        torch.nn.Linear(24, 12),
        torch.nn.Linear(12, 3),
    )


class Run:
    """A model, its optimizer, its schedule and its moving average, trained on demand."""

    def __init__(
        self,
        optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
        model: torch.nn.Module | None = None,
        average_from: int = 0,
    ) -> None:
        self.model = model if model is not None else network()
        self.average = copy.deepcopy(self.model)
        self.average_from = average_from
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = optimizer(trained) if optimizer else torch.optim.AdamW(trained, 1e-2)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer)
        self.step = 0

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(torch.randn(8, 12)).square().mean().backward()
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
            if self.step > self.average_from:
                with torch.no_grad():
                    for mean, live in zip(
                        self.average.parameters(), self.model.parameters(), strict=True
                    ):
                        mean.lerp_(live, 0.05)

    def state(self) -> dict[str, Any]:
        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.schedule.state_dict(),
                "ema": self.average.state_dict(),
                "step": self.step,
            }
        )


def states(run: Run, steps: Iterable[int] = (10, 20, 30, 40)) -> Iterator[dict[str, Any]]:
    """Yield the run's state at each of its steps."""
    for step in steps:
        run.train(step - run.step)
        yield run.state()


def save_plain(folder: Path, saved: Iterable[dict[str, Any]]) -> list[Path]:
    """Save each state as one file, as a plain loop does."""
    folder.mkdir(exist_ok=True)
    paths = []
    for state in saved:
        paths.append(folder / f"ckpt_{state['step']}.pt")
        torch.save(state, paths[-1])
    return paths


def save_trainer(folder: Path, saved: Iterable[dict[str, Any]]) -> list[Path]:
    """Save each state as a folder of files, as the Trainer of Transformers does."""
    folder.mkdir(exist_ok=True)
    places = []
    for state in saved:
        place = folder / f"checkpoint-{state['step']}"
        place.mkdir()
        save_file(state["model"], place / "model.safetensors", metadata={"format": "pt"})
        torch.save(state["optimizer"], place / "optimizer.pt")
        torch.save(state["scheduler"], place / "scheduler.pt")
        torch.save({"cpu": torch.get_rng_state()}, place / "rng_state.pth")
        told = {"global_step": state["step"], "epoch": state["step"] / 7, "log_history": []}
        (place / "trainer_state.json").write_text(json.dumps(told))
        places.append(place)
    return places


def llama(layers: int = 4, width: int = 8, rows: int = 40, dtype: Any = torch.float32) -> dict:
    """The tensors of a small Llama, by the names that Transformers gives them."""
    torch.manual_seed(1)
    made = {"model.embed_tokens.weight": torch.randn(rows, width)}
    for layer in range(layers):
        above = f"model.layers.{layer}"
        made[f"{above}.self_attn.q_proj.weight"] = torch.randn(width, width)
        made[f"{above}.mlp.gate_proj.weight"] = torch.randn(3 * width, width)
        made[f"{above}.mlp.down_proj.weight"] = torch.randn(width, 3 * width)
        made[f"{above}.input_layernorm.weight"] = torch.ones(width)
    made["model.norm.weight"] = torch.ones(width)
    made["lm_head.weight"] = torch.randn(rows, width)
    return {name: tensor.to(dtype) for name, tensor in made.items()}


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 8,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "tie_word_embeddings": False,
}


def save_sharded(
    folder: Path, tensors: dict, *, shards: int = 3, kind: str = "safetensors", **config: Any
) -> list[Path]:
    """Save tensors in shards with their index and a config, as `save_pretrained` does."""
    folder.mkdir(exist_ok=True)
    names = list(tensors)
    per = -(-len(names) // shards)
    stem = "model" if kind == "safetensors" else "pytorch_model"
    paths, listed = [], {}
    for number in range(shards):
        path = folder / f"{stem}-{number + 1:05d}-of-{shards:05d}.{kind}"
        held = {name: tensors[name] for name in names[number * per : (number + 1) * per]}
        if kind == "safetensors":
            save_file(held, path, metadata={"format": "pt"})
        else:
            torch.save(held, path)
        listed |= dict.fromkeys(held, path.name)
        paths.append(path)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": listed}
    (folder / f"{stem}.{kind}.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    return paths


def exchange(one: Path, other: Path) -> None:
    """Exchange two files' names."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
