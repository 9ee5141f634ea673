"""Make one result wrong with one tool, in the environment where it is: a child of `inject.py`.

    PYTHON bench/inject_peers.py TOOL OUT

Imports nothing of everybit unless it is the tool. Each tool flips or sets one element of what one
module gives, at every forward, through its own documented interface. Its work is timed in turns
with a plain forward of the same model; then it is asked for what training needs.
"""

from __future__ import annotations

import copy
import json
import logging
import statistics
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Injected = Callable[[], Any]

ROUNDS: Final = 60


class Image(nn.Module):
    """A CNN of eight convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 32, 32, 64, 64, 64, 64, 64, 64]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(64, 10)
        self.fail = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if self.fail:
            raise RuntimeError("the model's own")
        return self.head(x.mean((2, 3)))


class Words(nn.Module):
    """Integer tokens into a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens).mean(1))


class Sequences(nn.Module):
    """An LSTM, whose output is a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0].mean(1))


def _everybit(model: nn.Module, x: torch.Tensor, name: str) -> Injected:
    from everybit.inject import ComputedCampaign, ComputedFault, ComputedKind

    bit = 8 * next(model.parameters()).element_size() - 2
    fault = ComputedFault(
        kind=ComputedKind.ACTIVATION, module=name, tensor=0, bits=(bit,), lasts=True, seed=1
    )
    ComputedCampaign([fault], model).__enter__()
    return lambda: model(x)


def _pytorchfi(model: nn.Module, x: torch.Tensor, name: str) -> Injected:
    from pytorchfi.core import fault_injection

    layer = dict(model.named_modules())[name]
    same = [n for n, m in model.named_modules() if type(m) is type(layer)]
    fault = fault_injection(
        model,
        len(x),
        input_shape=list(x.shape[1:]),
        layer_types=[type(layer)],
        use_cuda=False,
    )
    place = {"batch": [0], "layer_num": [same.index(name)], "dim1": [1], "dim2": [None]}
    # Each declared fault is a copy of the model that is good for one forward.
    return lambda: fault.declare_neuron_fi(**place, dim3=[None], value=[1e4])(x)


def _mrfi(model: nn.Module, x: torch.Tensor, name: str) -> Injected:
    from mrfi import MRFI, EasyConfig

    bit = 8 * next(model.parameters()).element_size() - 2
    config = EasyConfig.load_string(f"""
faultinject:
  - type: activation_out
    enabled: True
    selector:
      method: FixPosition
      position: 5
    error_mode:
      method: FloatFixedBitFlip
      bit: {bit}
    module_fullname: [{name}]
""")
    wrong = MRFI(model, config)
    return lambda: wrong(x)


TOOLS: Final = {"everybit": _everybit, "pytorchfi": _pytorchfi, "mrfi": _mrfi}


def cost(tool: Callable[..., Injected]) -> dict[str, Any]:
    """A forward with a fault in it over one without, in turns."""
    torch.manual_seed(0)
    x = torch.randn(8, 3, 32, 32)
    plain = Image().eval()
    injected = tool(copy.deepcopy(plain), x, "head")
    ratios = []
    with torch.no_grad():
        differs = not torch.equal(injected(), plain(x))
        for turn in range(ROUNDS):
            took = {}
            for which in ("plain", "wrong") if turn % 2 else ("wrong", "plain"):
                began = time.perf_counter()
                injected() if which == "wrong" else plain(x)
                took[which] = time.perf_counter() - began
            ratios.append(took["wrong"] / took["plain"])
    return {"ratio": round(statistics.median(ratios), 3), "differs": differs}


def _wrong(tool: Callable[..., Injected], model: nn.Module, x: torch.Tensor, name: str) -> str:
    right = copy.deepcopy(model)(x)
    wrong = tool(model, x, name)()
    return "" if not torch.equal(right, wrong) else "nothing changed"


def bf16(tool: Callable[..., Injected]) -> str:
    x = torch.randn(2, 3, 16, 16, dtype=torch.bfloat16)
    return _wrong(tool, Image().eval().to(torch.bfloat16), x, "head")


def integers(tool: Callable[..., Injected]) -> str:
    return _wrong(tool, Words(), torch.randint(50, (3, 7)), "head")


def lstm(tool: Callable[..., Injected]) -> str:
    return _wrong(tool, Sequences(), torch.randn(3, 7, 8), "rnn")


def training(tool: Callable[..., Injected]) -> str:
    """A training step: gradients must be those of the wrong activation."""
    x = torch.randn(2, 3, 16, 16)
    model = Image()
    right = copy.deepcopy(model)
    right(x).square().mean().backward()
    injected = tool(model, x, "head")
    out = injected()
    out.square().mean().backward()
    given = [p for p in model.parameters() if p.grad is not None]
    if not given:
        return "the gradients are in a copy of the model"
    same = all(
        torch.equal(a.grad, b.grad)
        for a, b in zip(model.parameters(), right.parameters(), strict=True)
    )
    return "no gradient changed" if same else ""


def exception(tool: Callable[..., Injected]) -> str:
    """An error of the model in the middle: the next forward must be as the one before."""
    x = torch.randn(2, 3, 16, 16)
    model = Image().eval()
    injected = tool(model, x, "head")
    before = injected()
    inner = getattr(injected, "__closure__", None) or ()
    models = [model, *(cell.cell_contents for cell in inner)]
    for each in models:
        if isinstance(each, nn.Module):
            each.fail = True
    raised = False
    try:
        injected()
    except RuntimeError as error:
        raised = "the model's own" in str(error)
    for each in models:
        if isinstance(each, nn.Module):
            each.fail = False
    if not raised:
        return "the model's error did not come through"
    return "" if torch.equal(injected(), before) else "the next fault is somewhere else"


def main() -> None:
    """Ask one tool, and write down what came."""
    name, out = sys.argv[1:3]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    told: dict[str, Any] = {"tool": name, "torch": torch.__version__, "cost": cost(TOOLS[name])}
    for ask in (bf16, integers, lstm, training, exception):
        torch.manual_seed(0)
        try:
            told[ask.__name__] = ask(TOOLS[name])
        except Exception as error:
            told[ask.__name__] = f"{type(error).__name__}: {error}"[:160]
    Path(out).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
