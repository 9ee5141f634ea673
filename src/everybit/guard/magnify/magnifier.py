"""The check that a re-run carries: it waits for one step, notes its operations, and ends there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.boundary import Boundary
from everybit.guard.check import Check
from everybit.guard.magnify.measure import distance, in_memory_order, measure
from everybit.guard.magnify.recorder import Recorder
from everybit.guard.magnify.settings import apply_settings, read_settings
from everybit.guard.uncompiled import anything_is_compiled
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.guard.magnify.held import Held
    from everybit.guard.moment import Moment
    from everybit.guard.record import RecordCheck
    from everybit.guard.state import CarriedState

EVENTS = "events.jsonl"
SEEN = "seen.json"
HELD = "held.pt"
PROGRESS = "progress"


class EnoughError(SystemExit):
    """Ends a program whose step of interest has been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be seen.

    Attributes:
        step: The step.
        folder: Where it is written.
        hold: The number of the operation whose inputs and outputs are kept, or -1.
        other: File of what the other run's operation read and gave; "" for nothing.
        place: The input to compare; the outputs are where it is negative.
        settings: Settings to compute this step under; none to leave them as they are.
        other_settings: Those of the other run.
    """

    step: int
    folder: Path
    hold: int = -1
    other: str = ""
    place: int = -1
    settings: Mapping[str, Any] = field(default_factory=dict)
    other_settings: Mapping[str, Any] = field(default_factory=dict)


class Magnifier(Check):
    """Notes all operations of one step; the last of a Guard's checks."""

    def __init__(self, wanted: Wanted, state: CarriedState, record: RecordCheck) -> None:
        self._wanted = wanted
        self._state = state
        self._record = record
        self._recorder: Recorder | None = None
        self._settings: dict[str, Any] = {}

    def pass_over(self, steps: int) -> None:
        """Expect the step so many steps earlier: the program goes on from a checkpoint.

        Args:
            steps: Steps of the first run that are not computed again.
        """
        self._wanted = replace(self._wanted, step=self._wanted.step - steps)

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Begin with the step, and follow its phases."""
        if moment.step != self._wanted.step:
            return ()
        if self._recorder is None:
            self._begin()
        recorder = self._recorder
        assert recorder is not None
        if boundary is Boundary.STEP_START:
            recorder.phase = "update"
            if not recorder.notes_operations:
                for label, parameter in self._parameters():
                    recorder.value("gradient", label, parameter.grad)
        elif boundary is Boundary.STEP_END:
            if not recorder.notes_operations:
                for label, parameter in self._parameters():
                    recorder.value("weight", label, parameter)
            recorder.stop()
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Begin at the end of the step before; write, and end the program, at the end of it."""
        if moment.step == self._wanted.step - 1:
            self._begin()
        elif moment.step == self._wanted.step:
            self._write()
            raise EnoughError(0)
        self._tell(moment.step)
        return ()

    def _begin(self) -> None:
        apply_settings(self._wanted.settings)
        self._settings = read_settings()
        self._recorder = Recorder(
            self._named,
            self._modules,
            hold=self._wanted.hold,
            operations=not anything_is_compiled(),
        )
        self._recorder.start()

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        for tracked in self._state.tracked():
            yield tracked.label, tracked.local

    def _parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        for tracked in self._state.parameters():
            yield tracked.label, tracked.local

    def _modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for root, name in self._state.members.roots:
            for inner, module in unwrap(root).named_modules():
                yield (f"{name}:{inner}" if name else inner), module

    def _measured(self, held: Held) -> dict[str, Any]:
        other = torch.load(self._wanted.other, weights_only=True)
        place = self._wanted.place
        if place < 0:
            return measure(held, other["given"], self._wanted.other_settings)
        if place >= min(len(held.read), len(other["read"])):
            return {}
        pair = (in_memory_order(side[place]) for side in (held.read, other["read"]))
        return {"place": place, **distance(*pair)}

    def _tell(self, step: int) -> None:
        (self._wanted.folder / PROGRESS).write_text(str(step), encoding="ascii")

    def _write(self) -> None:
        recorder, folder = self._recorder, self._wanted.folder
        assert recorder is not None
        gathered = self._record.gathered
        seen: dict[str, Any] = {
            "step": self._wanted.step,
            "settings": self._settings,
            "operations": recorder.notes_operations,
            "lost": recorder.lost,
            "losses": [repr(loss) for loss in gathered.losses],
            "tables": [
                [str(table.link), list(table.names), list(table.words())]
                for table in gathered.tables
            ],
        }
        held = recorder.held
        if held is not None:
            torch.save({"given": held.given, "read": held.read}, folder / HELD)
            if self._wanted.other:
                seen["measured"] = self._measured(held)
        with (folder / EVENTS).open("w", encoding="utf-8") as file:
            for event in recorder.events:
                file.write(json.dumps(event.to_json(), separators=(",", ":")) + "\n")
        (folder / SEEN).write_text(json.dumps(seen), encoding="utf-8")
