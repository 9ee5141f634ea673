"""Run twins, ask `diff`, and keep the score."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.twins.scripts import arguments, run_program, write_program
from bench.twins.settings import Settings
from bench.twins.training import train

import everybit

if TYPE_CHECKING:
    from bench.twins.kinds import Kind, Planted


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `diff` said of one pair, and whether that is right."""

    kind: str
    name: str
    trace: str
    seed: int
    said: str
    certainty: str
    link: str
    step: int | None
    module: str
    right_kind: bool
    right_step: bool
    right_module: bool | None
    why: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the row of the results."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def ask(kind: Kind, seed: int, trace: str, folder: Path) -> Answer:
    """Run one pair and judge the answer."""
    began = time.perf_counter()
    draw = random.Random(f"{kind.name} {seed}")
    planted = kind.plant(Settings(seed=100 + seed), draw)
    folder.mkdir(parents=True, exist_ok=True)
    runs = [folder / "a", folder / "b"]
    if planted.source:
        for run, factor, version in zip(runs, ("1.0", "1.02"), ("1.0", "1.1"), strict=True):
            program = folder / f"program-{run.name}"
            write_program(program, planted.source, factor, version)
            run_program(program, run, arguments(planted.a), planted.module, trace)
    else:
        for run, settings in zip(runs, (planted.a, planted.b), strict=True):
            train(settings, run, trace=trace)
    verdict = everybit.diff(*runs)
    return _judge(kind, planted, seed, trace, verdict, time.perf_counter() - began)


def _judge(
    kind: Kind, planted: Planted, seed: int, trace: str, verdict: Any, seconds: float
) -> Answer:
    first = verdict.first
    said = str(first.kind) if first is not None else "none"
    where = first.where if first is not None else None
    step = where.step if where is not None else None
    named = ""
    if where is not None:
        named = where.module or (where.parameter or "").rpartition(".")[0]
    right_kind = said in kind.answers(trace)
    expected = planted.step if said != "none" else None
    right_step = said == "none" or expected is None or step == expected
    right_module = None
    if planted.module and trace == "module" and said != "none":
        right_module = named == planted.module or named.startswith(f"{planted.module}.")
    return Answer(
        kind=kind.name,
        name=planted.a.model,
        trace=trace,
        seed=seed,
        said=said,
        certainty=first.certainty if first is not None else "",
        link=str(where.link or "") if where is not None else "",
        step=step,
        module=named,
        right_kind=right_kind,
        right_step=right_step,
        right_module=right_module,
        why=first.why if first is not None else "",
        seconds=round(seconds, 2),
    )


def run_all(kinds, seeds, traces, *, told=None) -> list[Answer]:
    """Ask about every kind, seed and level of tracing."""
    answers = []
    # Outside any repository: what others commit meanwhile is no difference of the runs.
    with tempfile.TemporaryDirectory(prefix="twins-") as place, contextlib.chdir(place):
        for number, kind in enumerate(kinds):
            for seed in seeds:
                for trace in traces:
                    folder = Path(place) / f"{number}-{seed}-{trace}"
                    answers.append(ask(kind, seed, trace, folder))
                    shutil.rmtree(folder)
                    if told is not None:
                        told(answers[-1])
    return answers
