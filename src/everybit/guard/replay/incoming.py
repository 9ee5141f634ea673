"""What backward passes bring to parameters, before hooks of the program and wrappers take it.

With several ranks a parameter's gradient holds what they all have put in by the time that backward
has ended, and hooks of the program may have changed it. What comes first is this process's own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from everybit.probe.digest import memory_words, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Incoming:
    """Digests of the gradients that come to some parameters, by backward pass.

    Args:
        spend: Is told the seconds that this takes.
        lose: Is told why the gradients of a step cannot be compared.

    Attributes:
        number: The backward pass that is under way.
    """

    def __init__(self, spend: Callable[[float], None], lose: Callable[[str], None]) -> None:
        self.number = 0
        self._spend = spend
        self._lose = lose
        self._hooks: dict[int, Any] = {}
        self._words: dict[int, dict[int, int]] = {}

    def __contains__(self, parameter: torch.Tensor) -> bool:
        return id(parameter) in self._hooks

    def watch(self, parameters: Iterable[torch.Tensor]) -> None:
        """Look at what comes to these parameters from now on."""
        for parameter in parameters:
            if parameter.requires_grad and id(parameter) not in self._hooks:
                key = id(parameter)
                before = list((parameter._backward_hooks or {}).items())
                hook: Any = parameter.register_hook(self._catcher(key))  # type: ignore[no-untyped-call]
                self._hooks[key] = hook
                if before:
                    # They may change it. Autograd goes by the order in which they were put in.
                    hooks: Any = parameter._backward_hooks
                    own = hooks[hook.id]
                    hooks.clear()
                    hooks.update({hook.id: own, **dict(before)})

    def word(self, parameter: torch.Tensor, number: int) -> int | None:
        """Return the digest of what a backward pass has brought; None where it brought nothing."""
        return self._words.get(number, {}).get(id(parameter))

    def clear(self) -> None:
        """Let go of everything."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks, self._words = {}, {}
        self.number = 0

    def _catcher(self, key: int) -> Callable[[torch.Tensor], None]:
        def catch(gradient: torch.Tensor) -> None:
            began = time.perf_counter()
            try:
                self._take(key, gradient)
            except Exception as error:
                self._lose(f"a fault of its own: {type(error).__name__}: {error}")
            self._spend(time.perf_counter() - began)

        return catch

    def _take(self, key: int, gradient: torch.Tensor) -> None:
        words = self._words.setdefault(self.number, {})
        if key in words:
            self._lose("a backward pass brought gradients to a parameter more than once")
        elif gradient.device.type != "cpu" or not readable(gradient):
            self._lose("a gradient has no bytes on the host")
        else:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                words[key] = memory_words([gradient.detach()])[0]
