"""Legitimate writers that no version counter shows: `.data` and collectives, watched."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.patches import Patches
from everybit.probe.memory import version

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Aliases remembered for each tensor; older ones are forgotten.
_MAX_ALIASES = 4

#: Methods of a process group that write into tensors given to them, under all their names.
_COLLECTIVES = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
)


class Writers:
    """Know which tracked tensors may have been written through a side door.

    `.data` returns an alias with a version counter of its own. Taking it marks the tensor once;
    the alias is kept, so that a write through it (or a view of it) long after shows in the
    alias's counter.
    """

    def __init__(self) -> None:
        self._watched: set[int] = set()
        self._by_storage: dict[int, list[int]] = {}
        self._marked: set[int] = set()
        self._aliases: dict[int, list[tuple[torch.Tensor, int]]] = {}
        self._patches = Patches()

    def watch(self, tensors: Iterable[torch.Tensor]) -> None:
        """Set the tensors to watch; forgets marks and aliases of all others."""
        self._watched = set()
        self._by_storage = {}
        for tensor in tensors:
            self._watched.add(id(tensor))
            self._by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(id(tensor))
        self._marked &= self._watched
        self._aliases = {key: kept for key, kept in self._aliases.items() if key in self._watched}

    def mark(self, tensor: torch.Tensor) -> None:
        """Note that `tensor`, which may be a view of a watched one, was handed to a writer."""
        with contextlib.suppress(RuntimeError, NotImplementedError):  # It may have no storage.
            self._marked.update(self._by_storage.get(tensor.untyped_storage().data_ptr(), ()))

    def take(self, tensor: torch.Tensor) -> bool:
        """Whether a side door was used on `tensor` since the last `take`; clears the mark."""
        key = id(tensor)
        moved = key in self._marked
        self._marked.discard(key)
        aliases = self._aliases.get(key)
        if aliases:
            now = [(alias, version(alias)) for alias, _ in aliases]
            moved = moved or any(
                new != old for (_, new), (_, old) in zip(now, aliases, strict=True)
            )
            self._aliases[key] = now
        return moved

    @property
    def quiet(self) -> bool:
        """Whether no side door is open: `take` says no for every tensor."""
        return not self._marked and not self._aliases

    def settle(self, tensors: Iterable[torch.Tensor]) -> None:
        """Forget what was written so far: the tensors have just been marked as they are."""
        if not self.quiet:
            for tensor in tensors:
                self.take(tensor)

    def install(self) -> None:
        """Start watching."""
        self._watch_data()
        if torch.distributed.is_available():
            group = torch.distributed.ProcessGroup
            for name in _COLLECTIVES:
                if hasattr(group, name):
                    self._patches.wrap(group, name, self._collective)

    def remove(self) -> None:
        """Stop watching; everything is as before `install`."""
        self._patches.undo()
        self._aliases.clear()
        self._marked.clear()

    def _watch_data(self) -> None:
        original: Any = torch.Tensor.data

        def get(tensor: torch.Tensor) -> torch.Tensor:
            alias: torch.Tensor = original.__get__(tensor)
            if id(tensor) in self._watched:
                self._marked.add(id(tensor))
                kept = self._aliases.setdefault(id(tensor), [])
                kept.append((alias, version(alias)))
                del kept[:-_MAX_ALIASES]
            return alias

        def set_(tensor: torch.Tensor, value: torch.Tensor) -> None:
            if id(tensor) in self._watched:
                self._marked.add(id(tensor))
            # They go on sharing the old memory, and would keep it alive.
            self._aliases.pop(id(tensor), None)
            original.__set__(tensor, value)

        self._patches.replace(torch.Tensor, "data", property(get, set_))

    def _collective(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            self._mark_all(value)
        return original(*args, **kwargs)

    def _mark_all(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.mark(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._mark_all(item)
        elif isinstance(value, Mapping):
            for item in value.values():
                self._mark_all(item)
