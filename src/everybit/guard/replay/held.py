"""What the modules of a call held before it: Python attributes and buffers, to be put back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from everybit.guard.replay.reach import Reach
from everybit.guard.replay.values import differ, on_host, word_of
from everybit.probe.memory import version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.guard.readout import Word

#: Larger buffers are not copied: a call that writes to one is not repeated.
MAX_BUFFER_BYTES: Final = 1 << 20
#: Attributes that a call does not compute with, or that are looked at by themselves.
_LEFT_OUT: Final = frozenset(
    {
        "_parameters",
        "_buffers",
        "_modules",
        "_compiled_call_impl",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_backward_hooks",
        "_backward_pre_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_non_persistent_buffers_set",
    }
)
_MISSING: Final = object()


class Held:
    """Attributes and buffers of a module and its parts as they are now.

    What the attributes hold is held too, as far as it is reached (`Reach`).

    Args:
        module: The module that is about to be called.
        parts: Its parts, where they are listed already.
    """

    def __init__(self, module: torch.nn.Module, parts: list[torch.nn.Module] | None = None) -> None:
        self.parts = list(module.modules()) if parts is None else parts
        self._attributes = [_attributes_of(part) for part in self.parts]
        self._buffers = [dict(part._buffers) for part in self.parts]
        self._reach = Reach(self.parts, self._attributes)
        self._versions = [
            {key: version(value) for key, value in attributes.items() if _is_tensor(value)}
            for attributes in self._attributes
        ]
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._large: list[tuple[str, torch.Tensor, Word | None]] = []
        self._take_buffers()

    def _take_buffers(self) -> None:
        seen = set()
        for buffers in self._buffers:
            for name, buffer in buffers.items():
                if buffer is None or id(buffer) in seen:
                    continue
                seen.add(id(buffer))
                if buffer.numel() * buffer.element_size() <= MAX_BUFFER_BYTES:
                    self._copies.append((buffer, buffer.detach().clone()))
                else:
                    self._large.append((name, buffer, word_of(buffer)))

    def copies(self) -> list[torch.Tensor]:
        """Return the copies of the buffers, in order."""
        return [copy for _, copy in self._copies]

    def with_buffers(self, values: list[torch.Tensor]) -> None:
        """Take other values for the buffers: those of another replica, in its order."""
        for (_, copy), value in zip(self._copies, values, strict=True):
            copy.copy_(value)

    def why_lost(self) -> str:
        """Return what the call wrote to that cannot be put back, "" where nothing."""
        for part, attributes, versions in zip(
            self.parts, self._attributes, self._versions, strict=True
        ):
            for key, before in versions.items():
                if version(attributes[key]) != before:
                    return f"its forward writes into the tensor {type(part).__name__}.{key}"
        names = [name for name, _, _ in self._large]
        was = on_host([word for _, _, word in self._large])
        now = on_host([word_of(buffer) for _, buffer, _ in self._large])
        for name, one, other in zip(names, was, now, strict=True):
            if differ(one, other):
                return f"its forward writes into the buffer {name}, which is too large to copy"
        return ""

    @contextmanager
    def again(self) -> Iterator[None]:
        """Hold what was held then, and afterwards what is held now, version counters included."""
        now = Held.__new__(Held)
        now.parts = self.parts
        now._attributes = [_attributes_of(part) for part in self.parts]
        now._buffers = [dict(part._buffers) for part in self.parts]
        now._reach = Reach(self.parts, [*now._attributes, *self._attributes], self._reach)
        buffers = {
            id(buffer): buffer
            for held in (*self._buffers, *now._buffers)
            for buffer in held.values()
            if buffer is not None and not buffer.is_inference()
        }
        small = {id(buffer) for buffer, _ in self._copies}
        now._copies = [
            (buffer, buffer.detach().clone())
            for buffer in buffers.values()
            if id(buffer) in small or buffer.numel() * buffer.element_size() <= MAX_BUFFER_BYTES
        ]
        with _unsafe_preserve_version_counter(tuple(buffers.values())):
            try:
                self._put_back()
                yield
            finally:
                now._put_back()

    def _put_back(self) -> None:
        for part, attributes, buffers in zip(
            self.parts, self._attributes, self._buffers, strict=True
        ):
            current = part.__dict__
            for key in [k for k in current if k not in attributes and k not in _LEFT_OUT]:
                del current[key]
            for key, value in attributes.items():
                if current.get(key, _MISSING) is not value:
                    current[key] = value
            if _differ(part._buffers, buffers):
                part._buffers.clear()
                part._buffers.update(buffers)
        self._reach.put_back()
        with torch.no_grad():
            for buffer, copy in self._copies:
                buffer.detach().copy_(copy)


def _attributes_of(part: torch.nn.Module) -> dict[str, Any]:
    return {key: value for key, value in part.__dict__.items() if key not in _LEFT_OUT}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_inference()


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return len(one) != len(other) or any(one.get(key, _MISSING) is not other[key] for key in other)
