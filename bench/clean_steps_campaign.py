"""Clean steps under every check of what is computed: nothing is found at `error`.

    python -m bench.clean_steps_campaign --steps 100000 --out bench/results/clean-steps.json --write
    python -m bench.clean_steps_campaign --models LSTM --steps 25000 --seed 2000 --out part.json
    python -m bench.clean_steps_campaign --merge part.json... --out ... --write

Six small models train with replay of every call and every backward pass, checksums of products and
recomputed activations compared, on every step. They are not broken, so any finding of severity
`error` is a false alarm; where there is none, a bound on its rate at 95 % confidence is 3 / steps
(the rule of three: Hanley and Lippman-Hand, JAMA 1983). Warnings of sensors (a loss far outside its
band) are counted apart, and written out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from bench.kept import add_options, commit, read_parts, write_result
from bench.table import write_section
from torch import nn
from torch.utils.checkpoint import checkpoint

import everybit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Steps of one run; each run begins anew, with another seed.
STEPS_OF_RUN: Final = 500
_VOCABULARY: Final = 64


def _mlp() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    model = nn.Sequential(
        nn.Linear(16, 48),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(48, 48),
        nn.GELU(),
        nn.Linear(48, 4),
    )

    def loss(model: nn.Module) -> torch.Tensor:
        penalty = sum(p.square().sum() for p in model.parameters())
        fit = nn.functional.cross_entropy(model(torch.randn(16, 16)), torch.randint(4, (16,)))
        return fit + 1e-4 * penalty  # an L2 term outside of the model

    return model, loss


def _cnn() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip

    def loss(model: nn.Module) -> torch.Tensor:
        return nn.functional.cross_entropy(model(torch.randn(6, 3, 12, 12)), torch.randint(5, (6,)))

    return model, loss


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_VOCABULARY, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(24, _VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_a(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm_b(x))))


class _Gpt(nn.Module):
    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(_VOCABULARY, 32)
        self.blocks = nn.ModuleList(_Block(32) for _ in range(2))
        self.head = nn.Linear(32, _VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.checkpointed = checkpointed

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


def _next_token(model: nn.Module) -> torch.Tensor:
    tokens = torch.randint(_VOCABULARY, (4, 13))
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def _cast(model: nn.Module) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return _next_token(model)


#: Name of each: how model and loss are made, micro-batches a step, and whether a scaler is used.
MODELS: Final[dict[str, tuple[Callable[[], Any], int, bool]]] = {
    "MLP, dropout, L2 outside": (_mlp, 1, False),
    "CNN, batch norm, accumulation": (_cnn, 2, False),
    "LSTM": (lambda: (_Recurrent(), _next_token), 1, False),
    "GPT, tied weights": (lambda: (_Gpt(), _next_token), 1, False),
    "GPT, checkpointing, bf16": (lambda: (_Gpt(checkpointed=True), _cast), 1, False),
    "CNN, fp16 GradScaler": (_cnn, 1, True),
}


def _steps(name: str, seed: int, count: int) -> Iterator[None]:
    make, micro, scaled = MODELS[name]
    torch.manual_seed(seed)
    model, loss_of = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=2.0**16)
    for _ in range(count):
        for _ in range(micro):
            with torch.autocast("cpu", dtype=torch.float16, enabled=scaled):
                loss = loss_of(model) / micro
            scaler.scale(loss).backward()
        # everybit: ignore[SRC313] so wide a bound clips nothing, scaled or not
        nn.utils.clip_grad_norm_(model.parameters(), 1e6)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        yield


def try_run(name: str, seed: int, count: int, place: Path, **settings: Any) -> dict[str, Any]:
    """Train one model under every check; return what was tested and found."""
    options = {"replay_every": 1, "spot_checks": True, "on_finding": "record", "incident_mb": 0}
    with everybit.Guard(
        run=place / f"{abs(hash(name))}-{seed}", **{**options, **settings}
    ) as guard:
        for _ in _steps(name, seed, count):
            pass
    return {
        "steps": guard.verdict.stats.get("steps", count),
        "checked": {each.what: each.count for each in guard.coverage.checked},
        "skipped": [f"{each.what}: {each.why}" for each in guard.coverage.skipped if each.promised],
        "findings": [
            f"{each.rule} {each.severity}: {each.message[:200]}" for each in guard.verdict.findings
        ],
    }


def campaign(
    num_steps: int,
    *,
    seed: int = 0,
    spot: bool = True,
    place: Path | None = None,
    models: Sequence[str] = tuple(MODELS),
) -> dict[str, Any]:
    """Spread steps over the models; return counts, findings and the bound on false alarms."""
    result: dict[str, Any] = {"commit": commit(), "seeds": [seed], "models": {}}
    runs = math.ceil(num_steps / len(models) / STEPS_OF_RUN)
    steps = math.ceil(num_steps / len(models) / runs)
    for name in models:
        began = time.perf_counter()
        checked: Counter[str] = Counter()
        told: Counter[str] = Counter()
        skipped: Counter[str] = Counter()
        for number in range(runs):
            with tempfile.TemporaryDirectory(dir=place) as folder:
                one = try_run(name, seed + number, steps, Path(folder), spot_checks=spot)
            checked.update(one["checked"])
            told.update(one["findings"])
            skipped.update(one["skipped"])
        result["models"][name] = {
            "runs": runs,
            "steps": runs * steps,
            "replayed_calls": checked["calls of a model computed again"],
            "replayed_gradients": checked["gradients of these calls computed again"],
            "products": sum(n for what, n in checked.items() if what.startswith("products by")),
            "recomputed": checked["activations computed twice"],
            "findings": dict(told),
            "skipped": dict(skipped),
            "seconds": round(time.perf_counter() - began, 1),
        }
        print(name, json.dumps(result["models"][name]), file=sys.stderr, flush=True)
    return _bounded(result)


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the results of parts that began at different seeds."""
    result: dict[str, Any] = {
        "commit": ", ".join(dict.fromkeys(part["commit"] for part in parts)),
        "seeds": sorted(seed for part in parts for seed in part["seeds"]),
        "models": {},
    }
    if len(set(result["seeds"])) < len(result["seeds"]):
        sys.exit("two parts begin at the same seed: their steps are the same ones")
    for name in MODELS:
        each = [part["models"][name] for part in parts if name in part["models"]]
        if not each:
            sys.exit(f"no part has steps of {name!r}")
        result["models"][name] = {
            key: sum((Counter(one[key]) for one in each), Counter())
            if isinstance(value, dict)
            else sum(one[key] for one in each)
            for key, value in each[0].items()
        }
    return _bounded(result)


def _bounded(result: dict[str, Any]) -> dict[str, Any]:
    total = sum(each["steps"] for each in result["models"].values())
    return result | {"steps": total, "bound_95": 3 / total}


def failures(result: dict[str, Any]) -> list[str]:
    """What a campaign shows that must not be."""
    found = []
    for name, each in result["models"].items():
        found += [f"{name}: {line} ({n} times)" for line, n in _errors(each).items()]
        found += [f"{name}: not checked: {line}" for line in each["skipped"]]
        if not each["replayed_gradients"]:
            found.append(f"{name}: no gradient was replayed")
        if each["replayed_calls"] < each["steps"]:
            found.append(
                f"{name}: {each['replayed_calls']} calls replayed in {each['steps']} steps"
            )
    return found


def table(result: dict[str, Any]) -> str:
    """Return the section of docs/benchmarks.md."""
    bound = f"{result['bound_95']:.1e}"
    errors = sum(n for each in result["models"].values() for n in _errors(each).values())
    told = f"None at `error` means at most {bound} false alarms a step at 95 % confidence."
    if errors:
        told = f"{errors} findings at `error`."
    lines = [
        f"""\
{result["steps"]:,} clean steps (commit {result["commit"]}, seeds from {result["seeds"]} on), each
with replay of all calls and backward passes and, where counted, checksums of products.
{told} Warnings of sensors are counted apart.

| model | steps | calls again | gradients again | products tested | recomputed | errors | warnings |
|---|---:|---:|---:|---:|---:|---:|---:|"""
    ]
    for name, each in result["models"].items():
        lines.append(
            f"| {name} | {each['steps']:,} | {each['replayed_calls']:,} |"
            f" {each['replayed_gradients']:,} | {each['products']:,} | {each['recomputed']:,} |"
            f" {sum(_errors(each).values())} | {sum(_warnings(each).values())} |"
        )
    warnings = [line for each in result["models"].values() for line in _warnings(each)]
    return "\n".join([*lines, *(f"\n`{line}`" for line in warnings)])


def _errors(each: dict[str, Any]) -> dict[str, int]:
    return {line: n for line, n in each["findings"].items() if line not in _warnings(each)}


def _warnings(each: dict[str, Any]) -> dict[str, int]:
    return {line: n for line, n in each["findings"].items() if line.split()[1] == "warning:"}


def main() -> int:
    """Run, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first; each run has the next one")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--no-spot", action="store_true", help="leave out checksums of products")
    parser.add_argument("--place", type=Path, help="folder for the runs (default: temporary)")
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.merge:
        result = merged(read_parts(options.merge))
    else:
        result = campaign(
            options.steps,
            seed=options.seed,
            spot=not options.no_spot,
            place=options.place,
            models=options.models,
        )
    write_result(result, options.out)
    print(table(result))
    if options.write:
        write_section("clean-steps", table(result))
    wrong = failures(result)
    print("\n".join(wrong) or "nothing was found", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
