"""What a step carries beside modules and optimizers: scaler, schedulers, a loader's position."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


class OtherHeld:
    """An object with `state_dict` and `load_state_dict`, as it was.

    Args:
        name: Its name in the state.
        item: The object.
    """

    def __init__(self, name: str, item: Any) -> None:
        self.name = name
        self._item = item
        self._state = copy.deepcopy(item.state_dict())

    def put_back(self) -> None:
        """Load the state as it was."""
        self._item.load_state_dict(copy.deepcopy(self._state))

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield nothing: the state is copied with its tensors."""
        yield from ()

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield `(name, leaf)`."""
        yield from _leaves(self._state, self.name)


class ScalerHeld:
    """A GradScaler as it was: its tensors stay where they are, and what it notes of a step.

    Args:
        name: Its name in the state.
        scaler: A scaler of torch.
    """

    _TENSORS = ("_scale", "_growth_tracker")

    def __init__(self, name: str, scaler: Any) -> None:
        self.name = name
        self._scaler = scaler
        self._plain = {
            key: value
            for key, value in vars(scaler).items()
            if isinstance(value, (bool, int, float)) or key in self._TENSORS
        }
        # One that is switched off has none of these.
        notes: dict[Any, dict[str, Any]] = getattr(scaler, "_per_optimizer_states", {})
        self._steps = {key: _noted(value) for key, value in notes.items()}

    def put_back(self) -> None:
        """Let the scaler hold again what it held."""
        vars(self._scaler).update(self._plain)
        notes = getattr(self._scaler, "_per_optimizer_states", {})  # another one after each update
        notes.clear()
        for key, value in self._steps.items():
            notes[key] = _noted(value)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the scaler's own tensors, whose bytes are captured with all others."""
        for key in self._TENSORS:
            value = self._plain.get(key)
            if isinstance(value, torch.Tensor):
                yield f"{self.name}.{key.lstrip('_')}", value

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield `(name, number)`."""
        for key, value in self._plain.items():
            if not isinstance(value, torch.Tensor):
                yield f"{self.name}.{key.lstrip('_')}", value


def held_other(name: str, item: Any) -> OtherHeld | ScalerHeld:
    """Return an object as it is now; scalers of torch keep their tensors."""
    if isinstance(item, torch.amp.GradScaler):
        return ScalerHeld(name, item)
    return OtherHeld(name, item)


def _noted(value: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(item) if isinstance(item, dict) else item for key, item in value.items()}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}.{index}")
    else:
        yield path, value
