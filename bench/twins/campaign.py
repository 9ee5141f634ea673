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


class Runs:
    """Runs of this campaign by their settings: most twins of a seed share run A.

    Args:
        place: A folder for them.
        trace: Their level of tracing.
    """

    def __init__(self, place: Path, trace: str) -> None:
        self.place, self.trace = place, trace
        self._known: dict[Settings, Path] = {}

    def first(self, settings: Settings) -> Path:
        """Return run A, trained where it is not there yet."""
        if settings not in self._known:
            run = self.place / f"a-{len(self._known)}"
            train(settings, run, trace=self.trace)
            self._known[settings] = run
        return self._known[settings]


def ask(kind: Kind, seed: int, runs: Runs, folder: Path) -> Answer:
    """Run one pair and judge the answer."""
    began = time.perf_counter()
    planted = kind.plant(Settings(seed=100 + seed), random.Random(f"{kind.name} {seed}"))
    folder.mkdir(parents=True, exist_ok=True)
    pair = [folder / "a", folder / "b"]
    if planted.source:
        for run, factor, version in zip(pair, ("1.0", "1.02"), ("1.0", "1.1"), strict=True):
            program = folder / f"program-{run.name}"
            write_program(program, planted.source, factor, version)
            run_program(program, run, arguments(planted.a), planted.module, runs.trace)
    else:
        pair[0] = runs.first(planted.a)
        train(planted.b, pair[1], trace=runs.trace)
    verdict = everybit.diff(*pair)
    return _judge(kind, planted, seed, runs.trace, verdict, time.perf_counter() - began)


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
        for trace in traces:
            for seed in seeds:
                runs = Runs(Path(place) / f"{trace}-{seed}", trace)
                for number, kind in enumerate(kinds):
                    folder = runs.place / f"{number}"
                    answers.append(ask(kind, seed, runs, folder))
                    shutil.rmtree(folder)
                    if told is not None:
                        told(answers[-1])
                shutil.rmtree(runs.place)
    order = {kind.name: number for number, kind in enumerate(kinds)}
    return sorted(answers, key=lambda each: (order[each.kind], each.seed, each.trace))
