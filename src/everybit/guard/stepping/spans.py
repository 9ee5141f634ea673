"""Which module recorded an operation for the backward pass, and where its gradients leave it.

Autograd numbers the operations of a thread as it records them. What was recorded between the
beginning and the end of a module's call is the module's; the innermost call counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The number of a leaf is the highest there is.
_LEAF: Final = 1 << 63


class Spans:
    """The calls of modules during one computation, by the numbers of autograd."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        self._closed: list[tuple[int, int, str]] = []

    def around(self, module: torch.nn.Module, name: str) -> list[Any]:
        """Hook a module; returns the handles. Its other hooks come after the second of these."""

        def before(*_: Any) -> None:
            self._open.append((name, torch._C._autograd._get_sequence_nr()))

        def after(*_: Any) -> None:
            while self._open:
                opened, start = self._open.pop()
                if opened == name:
                    self._closed.append((start, torch._C._autograd._get_sequence_nr(), name))
                    break

        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def leaving(self, roots: Iterable[torch.Tensor]) -> Iterator[tuple[Any, str, int]]:
        """Yield `(node, module, edge)` where a gradient leaves a module for what came before it.

        Not those that lead to a parameter, or another leaf.

        Args:
            roots: What the backward pass begins at.
        """
        owners = self._owners()
        stack = [tensor.grad_fn for tensor in roots if tensor.grad_fn is not None]
        seen = {id(node): node for node in stack}
        while stack:
            node = stack.pop()
            owner = owners.get(node._sequence_nr())
            for edge, (target, _) in enumerate(node.next_functions):
                if target is None:
                    continue
                number = target._sequence_nr()
                if owner is not None and number < _LEAF and owners.get(number) != owner:
                    yield node, owner, edge
                if id(target) not in seen:
                    seen[id(target)] = target
                    stack.append(target)

    def _owners(self) -> dict[int, str]:
        """Return the innermost module of each number."""
        owners: dict[int, str] = {}
        # An outer call begins no later and ends no earlier: the inner ones write over it.
        for start, end, name in sorted(self._closed, key=lambda span: (span[0], -span[1])):
            owners |= dict.fromkeys(range(start, end), name)
        return owners
