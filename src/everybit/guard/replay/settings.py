"""The modes of torch that a call's numbers depend on, and calls made under them again."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEVICES = ("cpu", "cuda")
#: How scaled dot product attention may be computed: (getter, setter) in `torch._C`.
_ATTENTION = (
    ("_get_flash_sdp_enabled", "_set_sdp_use_flash"),
    ("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient"),
    ("_get_math_sdp_enabled", "_set_sdp_use_math"),
    ("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Modes as a call found them.

    Attributes:
        grad: Whether a graph is recorded.
        inference: Whether inference mode is on.
        autocast: `(device type, dtype)` of each kind of device whose operations are cast.
        cache: Whether autocast keeps what it has cast.
        attention: What attention may use.
        fixed: Modes that a program sets once: a call is repeated only while they are the same.
        dispatched: Whether a dispatch mode of ours was there: torch records other views then.
    """

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    cache: bool
    attention: tuple[bool, ...]
    fixed: tuple[tuple[str, Any], ...]
    dispatched: bool = False

    @classmethod
    def capture(cls) -> Self:
        """Take the modes as they are in this thread."""
        return cls(
            grad=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            autocast=tuple(
                (kind, torch.get_autocast_dtype(kind))
                for kind in _DEVICES
                if torch.is_autocast_enabled(kind)
            ),
            cache=torch.is_autocast_cache_enabled(),
            attention=tuple(getattr(torch._C, getter)() for getter, _ in _ATTENTION),
            fixed=_fixed(),
            dispatched=bool(torch._C._len_torch_dispatch_stack()),
        )

    def why_changed(self) -> str:
        """Return which mode is another one now, "" where none is."""
        for (name, before), (_, now) in zip(self.fixed, _fixed(), strict=True):
            if before != now:
                return f"{name} was {before} when it was called and is {now}"
        return ""

    @contextmanager
    def again(self, *, casting: bool = True) -> Iterator[None]:
        """Compute under these modes.

        Args:
            casting: Under autocast too. A backward pass runs outside of it: what is recomputed in
                one brings its own, and must not meet what the forward pass has cast already.
        """
        before = [getattr(torch._C, getter)() for getter, _ in _ATTENTION]
        with ExitStack() as stack:
            stack.enter_context(torch._C._EnableTorchFunction())
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            casts = dict(self.autocast) if casting else {}
            for kind in _DEVICES:
                if kind in casts or torch.is_autocast_enabled(kind):
                    cast = torch.autocast(
                        kind,
                        dtype=casts.get(kind),
                        enabled=kind in casts,
                        cache_enabled=self.cache,
                    )
                    stack.enter_context(cast)
            if self.dispatched:
                stack.enter_context(_Passing())  # type: ignore[no-untyped-call]
            try:
                self._set_attention(self.attention)
                yield
            finally:
                self._set_attention(before)

    @staticmethod
    def _set_attention(values: Any) -> None:
        for (getter, setter), value in zip(_ATTENTION, values, strict=True):
            if getattr(torch._C, getter)() != value:
                getattr(torch._C, setter)(value)


class _Passing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operation on as it is."""

    everybits_own = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def autocast_is_open() -> bool:
    """Whether this thread is within an autocast region, whose cache belongs to the program."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0


def _fixed() -> tuple[tuple[str, Any], ...]:
    return (
        ("the default dtype", torch.get_default_dtype()),
        ("the number of threads", torch.get_num_threads()),
        ("the precision of float32 products", torch.get_float32_matmul_precision()),
        ("the use of deterministic algorithms", torch.are_deterministic_algorithms_enabled()),
        ("cudnn.benchmark", torch.backends.cudnn.benchmark),
        ("cudnn.deterministic", torch.backends.cudnn.deterministic),
        ("cudnn.allow_tf32", torch._C._get_cudnn_allow_tf32()),
        ("the use of oneDNN", torch._C._get_mkldnn_enabled()),
    )
