"""Take the failing part of a recorded call alone, from a repeat of that call."""

from __future__ import annotations

import platform
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit._version import __version__
from everybit.guard.capsule.content import Capsule, NotPlainError, encode, encode_module
from everybit.guard.capsule.trying import try_once
from everybit.guard.replay.repeat import repeat
from everybit.guard.replay.values import tensors_in
from everybit.host.suspicions import host_serial
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from everybit.guard.replay.compare import Difference
    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replay.settings import Settings

#: Larger capsules are not kept.
MAX_BYTES: Final = 256 << 20


def capture_capsule(
    record: CallRecord,
    difference: Difference,
    *,
    device: str,
    rank: int,
    max_bytes: int = MAX_BYTES,
) -> Capsule:
    """Repeat a recorded call once more, and keep what its failing part is given and gives.

    Args:
        record: The call.
        difference: Where it parts from its repeats.
        device: Where it was computed.
        rank: Of this process.
        max_bytes: Of all tensors.

    Raises:
        NotPlainError: Something in it has no plain form, or it is too large.
        CannotRepeatError: It cannot be made again.
    """
    root = record.module()
    if root is None:
        raise NotPlainError("a model that is gone")
    part = root.get_submodule(difference.module)
    taker = _Taker(part, _number_of_call(record, difference), max_bytes)
    try:
        repeat(record)
    finally:
        taker.remove()
    if taker.capsule is None:
        raise taker.obstacle or NotPlainError("a part that was not called again")
    capsule = taker.capsule
    capsule.settings = described(record.settings)
    _complete(capsule, device)
    capsule.module = difference.module
    capsule.step, capsule.rank = record.step, rank
    capsule.facts = _facts(device)
    if difference.event is not None:
        mine = record.events[difference.event]
        if mine.name == difference.module and mine.comes_out:
            for place, (tensor, before) in enumerate(mine.tensors):
                if tensor._version == before:
                    capsule.found[f"output {place}"] = tensor.detach().cpu().clone()
    return capsule


def _complete(capsule: Capsule, device: str) -> None:
    """Compute it alone: its outputs have to be the repeat's, its gradients are the right ones."""
    attempt = try_once(capsule, device=torch.device(device), allow=True)
    for name, right in capsule.right.items():
        mine = attempt.get(name)
        if mine is None or memory_words([mine]) != memory_words([right]):
            raise NotPlainError("a part that does not repeat alone")
    capsule.right |= attempt


def described(settings: Settings | None) -> dict[str, Any]:
    """Return the modes of torch that numbers depend on, in words."""
    if settings is None:
        return {}
    return {
        "grad": settings.grad,
        "autocast": [[kind, str(dtype)] for kind, dtype in settings.autocast],
        "fixed": {name: str(value) for name, value in settings.fixed},
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
    }


def _facts(device: str) -> dict[str, Any]:
    return {
        "everybit": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "host": host_serial(),
        "device": device,
        "blas": torch.__config__.show().replace("\n", " ")[:2000],
    }


def _number_of_call(record: CallRecord, difference: Difference) -> int:
    """Return which of the part's calls within the recorded one it was."""
    if difference.event is None:
        return 0
    until = record.events[: difference.event + 1]
    return max(0, sum(e.name == difference.module and not e.comes_out for e in until) - 1)


class _Taker:
    """Hooks on one part for the time of a repeat; takes one of its calls."""

    def __init__(self, part: torch.nn.Module, number: int, max_bytes: int) -> None:
        self.capsule: Capsule | None = None
        self.obstacle: NotPlainError | None = None
        self._part = weakref.ref(part)
        self._number = number
        self._max_bytes = max_bytes
        self._calls = 0
        self._open = False
        self._handles: list[Any] = [
            part.register_forward_pre_hook(self._before, with_kwargs=True),
            part.register_forward_hook(self._after, with_kwargs=True),
        ]

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _before(self, part: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._open = self._calls == self._number and self.capsule is None
        self._calls += 1
        if not self._open:
            return
        tensors: list[torch.Tensor] = []
        try:
            size = sum(
                each.numel() * each.element_size() for each in (*part.parameters(), *part.buffers())
            )
            size += sum(t.numel() * t.element_size() for _, t in tensors_in((args, kwargs)))
            if size > self._max_bytes:
                raise NotPlainError(f"of {size >> 20} MiB, too large to be kept")
            with torch.no_grad():
                spec = encode_module(part, tensors)
                plain = encode(args, tensors), encode(dict(kwargs), tensors)
        except NotPlainError as error:
            self.obstacle, self._open = error, False
            return
        self.capsule = Capsule(
            module="", step=0, rank=0, finding={}, spec=spec, args=plain[0], kwargs=plain[1],
            tensors=tensors, rng=torch.get_rng_state().clone(),
        )  # fmt: skip

    def _after(self, part: torch.nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        if not self._open or self.capsule is None:
            return
        self._open = False
        right = self.capsule.right
        for place, (_, tensor) in enumerate(tensors_in(output)):
            right[f"output {place}"] = tensor.detach().cpu().clone()
            if tensor.requires_grad:
                keep = self._keeper(f"output {place}")
                self._handles.append(tensor.register_hook(keep))  # type: ignore[no-untyped-call]

    def _keeper(self, name: str) -> Any:
        capsule = self.capsule
        assert capsule is not None

        def hook(gradient: torch.Tensor) -> None:
            capsule.seeds[name] = gradient.detach().cpu().clone()

        return hook
