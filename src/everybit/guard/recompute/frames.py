"""Where activation checkpointing computes a second time: digests of the first and the second.

The variant without reentrant autograd asks a function for what it wants to know of each tensor that
it throws away, and keeps the answers to compare them with the tensors computed again; digests are
taken there. The reentrant one calls the function twice; its outputs are compared.
"""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import checkpoint

from everybit.guard.patches import Patches
from everybit.guard.replay.values import word_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.guard.readout import Word


@dataclass(slots=True, eq=False)
class Recomputed:
    """What checkpointing computed twice, once.

    Attributes:
        function: What was called: a module, or the function's own name.
        owner: The module it belongs to, where that can be told.
        shapes: Of the tensors compared, with dtype, as text.
        first: Digest words of the first computation, in order.
        second: Those of the second.
        positions: Of the tensors among all that were kept.
    """

    function: str
    owner: weakref.ref[torch.nn.Module] | None
    shapes: list[str] = field(default_factory=list)
    first: list[Word] = field(default_factory=list)
    second: list[Word] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """The same for each call of one function."""
        return self.function, 0 if self.owner is None else id(self.owner())

    def add(self, position: int, tensor: torch.Tensor, first: Word, second: Word) -> None:
        """Take up a tensor that both computations have made."""
        self.positions.append(position)
        self.shapes.append(f"{tensor.dtype}{list(tensor.shape)}".removeprefix("torch."))
        self.first.append(first)
        self.second.append(second)


class Frames:
    """Surrounds checkpointing while installed.

    Args:
        wants: Whether what is called now is to be compared.
        told: Called with each comparison, in the thread of the backward pass.
        failed: Called with an error of our own; the job goes on.
    """

    def __init__(
        self,
        wants: Callable[[], bool],
        told: Callable[[Recomputed], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._wants = wants
        self._told = told
        self._failed = failed
        self._patches = Patches()

    def install(self) -> None:
        """Surround torch's checkpointing."""
        frame: Any = checkpoint._CheckpointFrame
        self._patches.wrap(frame, "__init__", self._begin)
        self._patches.wrap(frame, "check_recomputed_tensors_match", self._compare)
        self._patches.replace(checkpoint.CheckpointFunction, "forward", self._reentrant())

    def remove(self) -> None:
        """Leave it as it was."""
        self._patches.undo()

    def _begin(self, original: Any, frame: Any, *args: Any, **kwargs: Any) -> None:
        original(frame, *args, **kwargs)
        if self._wants() and frame.metadata_fn is not None:
            frame.metadata_fn = _Recorder(frame.metadata_fn, self._failed)

    def _compare(self, original: Any, frame: Any, gid: Any) -> None:
        recorder = frame.metadata_fn
        if not isinstance(recorder, _Recorder):
            original(frame, gid)
            return
        frame.metadata_fn = recorder.original
        original(frame, gid)  # Raises where not even the shapes agree: the job's own error.
        if frame.ignore_saved_mismatch:
            return
        try:
            with torch.no_grad():
                self._told(_compared(recorder, frame, gid))
        except Exception as error:
            self._failed(error)

    def _reentrant(self) -> Any:
        original = checkpoint.CheckpointFunction.forward

        @functools.wraps(original)
        def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
            if self._wants():
                function = _Twice(function, self._told, self._failed)
            return original(ctx, function, preserve, *args)  # type: ignore[no-untyped-call]

        return staticmethod(forward)


class _Recorder:
    """Stands where checkpointing asks what it wants to know of a tensor it throws away."""

    def __init__(self, original: Any, failed: Callable[[Exception], None]) -> None:
        self.original = original
        self.kept: list[tuple[Word, weakref.ref[torch.Tensor]] | None] = []
        self._failed = failed

    def __call__(self, tensor: torch.Tensor) -> Any:
        answer = self.original(tensor)
        try:
            word = word_of(tensor)
            self.kept.append(None if word is None else (word, weakref.ref(tensor)))
        except Exception as error:
            self.kept.append(None)
            self._failed(error)
        return answer


class _Twice:
    """A function that reentrant checkpointing calls without gradients, then again with them."""

    def __init__(
        self,
        function: Any,
        told: Callable[[Recomputed], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._function = function
        self._told = told
        self._failed = failed
        self._first: list[Word | None] | None = None

    def __call__(self, *args: Any) -> Any:
        result = self._function(*args)
        try:
            with torch.no_grad():
                self._look(result if isinstance(result, tuple) else (result,))
        except Exception as error:
            self._failed(error)
        return result

    def _look(self, results: tuple[Any, ...]) -> None:
        tensors = [each.detach() for each in results if isinstance(each, torch.Tensor)]
        words = [word_of(tensor) for tensor in tensors]
        if self._first is None:
            self._first = words
            return
        found = Recomputed(*_named(self._function))
        pairs = zip(tensors, self._first, words, strict=True)
        for position, (tensor, first, second) in enumerate(pairs):
            if first is not None and second is not None:
                found.add(position, tensor, first, second)
        self._told(found)


def _compared(recorder: _Recorder, frame: Any, gid: Any) -> Recomputed:
    found = Recomputed(*_named(_function_of(frame.recompute_fn)))
    for position, (reference, kept) in enumerate(
        zip(frame.weak_holders, recorder.kept, strict=True)
    ):
        holder = reference()
        if holder is None or kept is None:
            continue
        word, first = kept
        tensor = frame.recomputed[gid][holder.handles[gid]]
        if first() is tensor:
            continue  # State of the model, a running mean say: the very same tensor both times.
        second = word_of(tensor)
        if second is not None:
            found.add(position, tensor, word, second)
    return found


def _function_of(recompute: Any) -> Any:
    """Return what checkpointing was given: its own function holds it."""
    names = getattr(recompute, "__code__", None)
    for name, cell in zip(
        getattr(names, "co_freevars", ()),
        getattr(recompute, "__closure__", None) or (),
        strict=True,
    ):
        if name == "fn":
            return cell.cell_contents
    return recompute


def _named(function: Any) -> tuple[str, weakref.ref[torch.nn.Module] | None]:
    while isinstance(function, functools.partial):
        function = function.func
    owner = function if isinstance(function, torch.nn.Module) else None
    owner = owner or getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", type(function).__name__)
    if not isinstance(owner, torch.nn.Module):
        inside = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        modules = [each for each in inside if isinstance(each, torch.nn.Module)]
        owner = modules[0] if len(modules) == 1 else None
    return name, None if owner is None else weakref.ref(owner)
