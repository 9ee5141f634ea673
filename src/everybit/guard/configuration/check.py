"""The check that notes what the program has set: all of it at first, then what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.boundary import Boundary
from everybit.guard.check import Check
from everybit.guard.configuration.delta import delta_of
from everybit.guard.configuration.optimizers import OptimizerSettings, scaler_settings
from everybit.guard.configuration.parts import PartSettings
from everybit.guard.configuration.precision import precision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.members import Members
    from everybit.guard.moment import Moment


class ConfigurationCheck(Check):
    """Note settings of optimizers, modules and torch; it judges nothing.

    Args:
        members: Knows the modules and optimizers.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._optimizers = OptimizerSettings()
        self._parts = PartSettings()
        self._known: dict[str, Any] = {}
        self._changes: list[Mapping[str, Any]] = []
        self._looked = False
        self._seen: dict[str, Any] = {}

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Look at what this boundary shows."""
        if boundary is Boundary.FORWARD_START:
            if not self._looked and (moment.differentiable or moment.evaluating):
                found = {**self._parts.read(self._members.roots), "precision": precision()}
                if moment.evaluating or moment.root is None or moment.root.training:
                    self._looked, self._seen = True, {}
                    self._note(found)
                elif not self._seen:
                    self._seen = found  # Validation, perhaps: a call in training mode tells more.
        elif boundary is Boundary.STEP_START and moment.optimizer is not None:
            self._note(self._seen)
            self._seen = {}
            name = self._members.name_of(moment.optimizer)
            if name is not None:
                settings = self._optimizers.read(moment.optimizer)
                if settings is not None:
                    self._note({"optimizers": {name: settings}})
            if moment.scaler is not None:
                self._note({"scaler": scaler_settings(moment.scaler)})
        elif boundary is Boundary.STEP_END:
            self._note(self._seen)
            self._looked, self._seen = False, {}
        return ()

    def put_back(self) -> None:
        """Look again: the step begins anew."""
        self._looked, self._seen = False, {}

    def changes(self) -> Sequence[Mapping[str, Any]]:
        """Return what has changed since the last call: a mapping to be merged key by key."""
        if not self._changes:
            return ()
        changes, self._changes = self._changes, []
        return changes

    def _note(self, settings: Mapping[str, Any]) -> None:
        for section, found in settings.items():
            known = self._known.get(section)
            if section == "optimizers":  # Each is told of by itself.
                found = {**(known or {}), **found}
            if found == known:
                continue
            self._changes.append({section: delta_of(known, found)})
            self._known[section] = found
