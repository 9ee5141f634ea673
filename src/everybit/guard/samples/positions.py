"""Positions of all loaders and the random streams, as one value that a checkpoint can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.errors import UsageError
from everybit.guard.samples.resume import OwnPlan, Plan, position_of
from everybit.probe.samples import restore_states, stream_states
from everybit.probe.state.rng import RngState

if TYPE_CHECKING:
    from everybit.guard.samples.check import SampleCheck
    from everybit.guard.samples.names import Entries, Entry

_SCHEMA: Final = "everybit.position/1"


class Positions:
    """Saves where loaders are, and has them go on from there.

    Args:
        entries: The loaders.
        check: Is told what cannot be gone on with exactly.
    """

    def __init__(self, entries: Entries, check: SampleCheck) -> None:
        self._entries = entries
        self._check = check
        self._pending: dict[str, dict[str, Any]] = {}
        self._state: dict[str, Any] | None = None
        self._iterated: set[Entry] = set()

    def save(self, step: int) -> dict[str, Any]:
        """Return the state: numbers, text, lists, dictionaries and tensors only."""
        loaders = {}
        trains = any(entry.last_step >= 0 for entry in self._entries)
        for entry in self._entries:
            if entry.hooks is None:
                if entry.name in self._pending:  # It was not iterated since it was loaded.
                    loaders[entry.name] = self._pending[entry.name]
                continue
            live = entry.is_live(step, trains=trains)
            loaders[entry.name] = position_of(entry.hooks, entry.promise, live=live)
        devices = RngState.capture().devices
        return {
            "schema": _SCHEMA,
            "step": step,
            "rng": stream_states({}),
            "devices": list(devices),
            "losses": self._check.losses.save(),
            "loaders": loaders,
        }

    def load(self, state: Any) -> None:
        """Put the streams back, and keep the positions until their loaders are iterated."""
        if not isinstance(state, dict) or state.get("schema") != _SCHEMA:
            raise UsageError(
                "this is no state of a Guard",
                where="load_state_dict",
                todo="give it what `guard.state_dict()` returned",
            )
        self._state = state
        self._pending = dict(state["loaders"])
        self._iterated.clear()  # One that was looked at before is gone on with, too.
        self._check.losses.load(state["losses"])
        self._restore_streams()

    def own_state(self, entry: Entry) -> Any:
        """Return the saved state of a loader that knows its own position; None with none."""
        position = self._pending.get(entry.name)
        return None if position is None else position["own"]

    def own_plan(self, entry: Entry) -> OwnPlan | None:
        """Return the plan for such a loader."""
        position = self._pending.pop(entry.name, None)
        if position is None:
            return None
        entry.passes = int(position["epoch"])
        return OwnPlan(position, self._restore_once)

    def plan_for(self, entry: Entry) -> Plan | None:
        """Return the plan for a loader that is about to be iterated; None where it just begins."""
        if not self._pending or entry in self._iterated:
            return None
        self._iterated.add(entry)
        names = [entry.name] if entry.name in self._pending else []
        names += [] if entry.given else [name for name in self._pending if name not in names]
        why = ""
        for name in names:
            plan = Plan(self._pending[name], self._restore_once)
            differs = plan.fits(entry.promise)
            if not differs:
                del self._pending[name]
                if name != entry.name:
                    self._entries.rename(entry, name)
                entry.passes = plan.epoch if plan.live else plan.epoch + 1
                self._check.resuming(entry.name, plan)
                return plan
            why = why or differs
        if entry.name in self._pending:
            del self._pending[entry.name]
            self._check.cannot_resume(entry.name, why)
        return None

    def close(self) -> None:
        """Tell of positions that nobody took up."""
        for name, position in self._pending.items():
            if position["live"]:
                self._check.never_resumed(name)
        self._pending = {}

    def _restore_once(self) -> bool:
        state, self._state = self._state, None
        if state is None:
            return False
        self._state = state
        self._restore_streams()
        self._state = None
        return True

    def _restore_streams(self) -> None:
        assert self._state is not None
        restore_states(self._state["rng"], {})
        for index, each in enumerate(self._state["devices"]):
            if torch.cuda.is_available() and index < torch.cuda.device_count():
                torch.cuda.set_rng_state(each, index)
