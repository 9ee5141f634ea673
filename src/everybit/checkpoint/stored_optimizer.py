"""An optimizer's state in a file: groups, names and moments, by the file's own numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.model import Model, ModelTensor

_GROUP: Final = re.compile(r"^(.*?)param_groups\.(\d+)\.(.+)$", re.DOTALL)
_NAMES: Final = "param_names"


@dataclass(slots=True, kw_only=True)
class StoredOptimizer:
    """One optimizer of a file.

    Attributes:
        root: Its dotted key with its dot; "" where it is the whole file.
        groups: Settings of each group, flat by dotted key, without parameters and names.
        members: Numbers of the parameters of each group, in order.
        names: Their names, in order, for groups that say them.
        tensors: `{number: {slot: tensor}}`.
        values: `{number: {slot: plain value}}`.
        numbers: Numbers given to parameters that the file calls by name only.
    """

    root: str
    groups: dict[int, dict[str, object]] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    tensors: dict[int, dict[str, ModelTensor]] = field(default_factory=dict)
    values: dict[int, dict[str, object]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def has_names(self) -> bool:
        """Whether every parameter of every group has a name."""
        return bool(self.members) and all(
            len(self.names.get(group, ())) == len(numbers)
            for group, numbers in self.members.items()
        )

    def slots(self, number: int) -> dict[str, Any]:
        """Return tensors and values of one parameter, by slot."""
        return {**self.values.get(number, {}), **self.tensors.get(number, {})}


def find_optimizers(model: Model) -> list[StoredOptimizer]:
    """Return the optimizers of a file, in its order."""
    found: dict[str, StoredOptimizer] = {}
    for key, value in model.values.items():
        match = _GROUP.match(str(key))
        if match is None:
            continue
        root, group, rest = match[1], int(match[2]), match[3]
        held = found.setdefault(root, StoredOptimizer(root=root))
        if rest.startswith("params.") and isinstance(value, int):
            held.members.setdefault(group, []).append(value)
        elif rest.startswith("params.") and isinstance(value, str):
            # As `torch.distributed.checkpoint.state_dict` has it: names in the place of numbers.
            number = held.numbers.setdefault(value, len(held.numbers))
            held.members.setdefault(group, []).append(number)
            held.names.setdefault(group, []).append(value)
        elif rest.startswith(f"{_NAMES}."):
            held.names.setdefault(group, []).append(str(value))
        elif not rest.startswith("params"):
            held.groups.setdefault(group, {})[rest] = value
    for root, held in found.items():
        states = f"{root}state."
        for tensor in model.tensors:
            _file(held.tensors, states, tensor.name, tensor, held.numbers)
        for key, value in model.values.items():
            _file(held.values, states, str(key), value, held.numbers)
    return [held for held in found.values() if held.members]


def _file(
    into: dict[int, Any], states: str, name: str, value: object, numbers: Mapping[str, int]
) -> None:
    if not name.startswith(states):
        return
    if numbers:
        parts = name[len(states) :].split(".")
        for end in range(len(parts) - 1, 0, -1):
            at = numbers.get(".".join(parts[:end]))
            if at is not None:
                into.setdefault(at, {})[".".join(parts[end:])] = value
                return
        return
    number, _, slot = name[len(states) :].partition(".")
    if number.isdecimal() and slot:
        into.setdefault(int(number), {})[slot] = value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts and lists for values by dotted key.

    >>> nested({"lr": 0.1, "betas.0": 0.9, "betas.1": 0.99})
    {'lr': 0.1, 'betas': [0.9, 0.99]}
    """
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        at = tree
        *above, last = key.split(".")
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return {key: _listed(value) for key, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _listed(item) for key, item in value.items()}
    # In any order: tensors and plain values of one list are kept apart in a file.
    places = [str(index) for index in range(len(inner))]
    return [inner[place] for place in places] if inner and set(inner) == set(places) else inner
