"""What a whole step carries and changes: captured, put back, and healed from a copy."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from everybit.core.change import evidence_of
from everybit.core.errors import UsageError
from everybit.probe.digest import flatten
from everybit.probe.state import State
from everybit.probe.state.copies import copy_tensors, pieces_of
from everybit.probe.state.room import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.finding import Finding
    from everybit.guard.members import Members
    from everybit.probe.state.copies import Copy

#: Steps at whose start schedulers and scalers are looked for: some are built in the first one.
_MAX_SEARCHES = 2


class Carried:
    """Modules and optimizers that are watched, with the schedulers and scalers that go with them.

    Args:
        members: Knows the modules and optimizers.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._told: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._models: dict[str, torch.nn.Module] = {}
        self._known: set[int] = set()
        self._searches_left = _MAX_SEARCHES

    def add(self, *items: Any) -> None:
        """Take up what a step changes beside modules and optimizers.

        Raises:
            UsageError: It has no `state_dict` and `load_state_dict`.
        """
        for item in items:
            if isinstance(item, torch.nn.Module):
                self._models.setdefault(f"carried{len(self._models)}", item)
            elif hasattr(item, "state_dict") and hasattr(item, "load_state_dict"):
                self._told[f"carried{len(self._told)}"] = item
            else:
                raise UsageError(
                    f"a {type(item).__name__} has no state_dict and load_state_dict",
                    where="Guard.carry",
                    todo="give it both methods, or keep its state in a module or an optimizer",
                )

    def roots(self) -> dict[str, torch.nn.Module]:
        """Return the watched root modules by name, "" for the first."""
        return {name or "": root for root, name in self._members.roots}

    def capture(self, base: State | None) -> State:
        """Capture all of it, with gradients and random generators.

        Args:
            base: An earlier state: what has the same bytes shares its copy.
        """
        self._search()
        optimizers = {name: each for each, name in self._members.optimizers}
        return State.capture(
            self.roots() | self._models,
            optimizers,
            others=self._found | self._told,
            gradients=True,
            base=base,
        )

    def _search(self) -> None:
        """Look for schedulers of these optimizers, scalers and averages among all live objects."""
        mine = {id(optimizer) for optimizer, _ in self._members.optimizers}
        if mine != self._known:
            self._known, self._searches_left = mine, _MAX_SEARCHES
        if not self._searches_left:
            return
        self._searches_left -= 1
        told = {id(item) for item in (*self._told.values(), *self._models.values())}
        self._found = {}
        for item in _live():
            if id(item) in told:
                continue
            if isinstance(item, AveragedModel):
                if not any(item is each for each in self._models.values()):
                    self._models[f"average{len(self._models)}"] = item
            elif isinstance(item, torch.amp.GradScaler):
                self._found[f"scaler{len(self._found)}"] = item
            elif id(getattr(item, "optimizer", None)) in mine:
                self._found[f"scheduler{len(self._found)}"] = item


def _live() -> Iterator[Any]:
    # Types are compared without `isinstance`, which would touch lazy attributes of others.
    wanted = (AveragedModel, torch.amp.GradScaler, LRScheduler)
    for item in gc.get_objects():
        if issubclass(type(item), wanted):
            yield item


class Arguments:
    """The tensors among a step's arguments, as they were before it.

    Args:
        args: Positional and keyword arguments.
    """

    def __init__(self, args: Any) -> None:
        self._tensors = [
            piece
            for _, value in flatten(args)
            if isinstance(value, torch.Tensor)
            for _, piece in pieces_of(value)
        ]
        self._copies: list[Copy] = copy_tensors(
            self._tensors, [None] * len(self._tensors), Room(None, None)
        )

    def put_back(self) -> None:
        """Write them back where anything has changed them."""
        known: list[Copy | None] = list(self._copies)
        now = copy_tensors(self._tensors, known, Room(None, None))
        for tensor, copy, found in zip(self._tensors, self._copies, now, strict=True):
            if found is not copy:
                copy.write(tensor)


def healed_from(state: State, finding: Finding) -> Finding:
    """Put the right bytes back from a copy where a finding tells of a damaged tensor.

    The tensor's last legitimate writer came before the copy was taken: what no known writer has
    touched since has to hold what the copy holds.

    Args:
        state: The last proven state.
        finding: Damage at rest that marks could not heal.

    Returns:
        The finding, with its elements, and as healed; itself where there is no copy.
    """
    where = finding.where
    place = state.heal(
        parameter=where.parameter,
        module=where.module,
        optimizer=where.optimizer,
        tensor=where.tensor,
    )
    if place is None:
        return finding
    keys = {key: value for key, value in place.where.items() if key.startswith("element")}
    evidence = dict(finding.evidence) | {"healed": True, "located_by": "copy", "confirmed": True}
    evidence |= evidence_of(place.changes)
    evidence |= {"num_elements": place.num_elements, "num_bits": place.num_bits}
    return replace(
        finding,
        where=replace(where, **({"elements": None, "element_ranges": None} | keys)),
        evidence=evidence,
        message=f"{finding.message}; the right bits are back, from the copy of the last step",
        remedy="Nothing is lost; if it happens again on this machine, test its memory.",
    )
