"""Legitimate writers that no version counter shows: `.data` and collectives, watched."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.patches import Patches
from everybit.guard.shards import local_of
from everybit.guard.strangers import find_strangers, shares_counter
from everybit.probe.memory import storage_address, version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Aliases remembered for each tensor; with more, the tensor counts as written.
_MAX_ALIASES = 64
#: Searches for the owners of memory that watched tensors are pieces of.
_MAX_SEARCHES = 4


class Access(IntEnum):
    """What happened to a tensor through a side door since it was last asked."""

    NONE = 0
    READ = 1
    WRITTEN = 2


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
    """Know which tracked tensors were written through a side door.

    `.data` returns an alias with a version counter of its own. The alias is kept as long as
    anybody else holds it, so that a write through it (or a view of it) shows in its counter. A
    collective, and `.data = ...`, count as writes to everything in that memory.
    """

    def __init__(self) -> None:
        self._sets: dict[str, dict[int, list[int]]] = {}
        self._watched: dict[int, list[int]] = {}
        self._ids: set[int] = set()
        self._marked: dict[int, Access] = {}
        self._aliases: dict[int, list[tuple[torch.Tensor, int]]] = {}
        self._asleep: dict[int, list[tuple[torch.Tensor, int]]] = {}
        self._searched: set[int] = set()
        self._searches_left = _MAX_SEARCHES
        self._patches = Patches()

    def watch(self, tensors: Iterable[torch.Tensor], *, of: str = "state") -> None:
        """Set the tensors to watch; forgets marks of all others.

        Aliases that the program holds are known again when their tensor is watched again.

        Args:
            tensors: All tensors of one kind.
            of: The kind; tensors of other kinds stay watched.
        """
        found: dict[int, list[int]] = {}
        pieces = []
        for tensor in tensors:
            storage = storage_address(local_of(tensor))
            found.setdefault(storage, []).append(id(tensor))
            new = storage not in self._searched
            if self._searches_left and storage and new and _is_piece(tensor):
                pieces.append(tensor)
        self._sets[of] = found
        self._watched = {}
        for part in self._sets.values():
            for storage, keys in part.items():
                self._watched.setdefault(storage, []).extend(keys)
        self._ids = {key for keys in self._watched.values() for key in keys}
        self._marked = {key: seen for key, seen in self._marked.items() if key in self._ids}
        self._put_to_sleep()
        if pieces:
            self._searches_left -= 1
            self._searched |= {storage_address(tensor) for tensor in pieces}
            self.strangers(pieces)

    def _put_to_sleep(self) -> None:
        asleep = self._asleep | {
            key: kept for key, kept in self._aliases.items() if key not in self._ids
        }
        self._aliases = {key: kept for key, kept in self._aliases.items() if key in self._ids}
        self._asleep = {}
        storages = {key: at for at, keys in self._watched.items() for key in keys} if asleep else {}
        for key, kept in asleep.items():
            held = [entry for entry in kept if _is_held(entry)]
            # Another tensor may have come under this identity, but not into memory that is held.
            mine = [entry for entry in held if storage_address(entry[0]) == storages.get(key)]
            if mine:
                self._aliases.setdefault(key, []).extend(mine)
            elif held:
                self._asleep[key] = held

    def strangers(self, tensors: Sequence[torch.Tensor]) -> set[int]:
        """Return the identities of tensors in whose memory others lie that were not known.

        From now on writes through these are known.
        """
        found: set[int] = set()
        for tensor, other in find_strangers(tensors):
            known = self._aliases.get(id(tensor), [])
            counted = any(shares_counter(alias, other) for alias, _ in known)
            if id(other) in self._ids or counted:
                continue
            found.add(id(tensor))
            if not other.is_inference():
                self._aliases[id(tensor)] = [*known, (other, version(other))]
        return found

    def mark(self, tensor: torch.Tensor) -> None:
        """Note that `tensor`, or something in its memory, was handed to a writer."""
        if id(tensor) in self._ids:
            self._marked[id(tensor)] = Access.WRITTEN
        if tensor.layout is torch.strided and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            for key in self._watched.get(storage_address(tensor), ()):
                self._marked[key] = Access.WRITTEN

    def take(self, tensor: torch.Tensor) -> Access:
        """Return what was done to `tensor` since the last `take`, and begin anew."""
        key = id(tensor)
        access = self._marked.pop(key, Access.NONE)
        aliases = self._aliases.get(key)
        if aliases:
            if any(version(alias) != known for alias, known in aliases):
                access = Access.WRITTEN
            kept = [(entry[0], version(entry[0])) for entry in aliases if _is_held(entry)]
            if kept:
                self._aliases[key] = kept
            else:
                del self._aliases[key]
        return access

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
        self._asleep.clear()
        self._marked.clear()

    def _watch_data(self) -> None:
        original: Any = torch.Tensor.data

        def get(tensor: torch.Tensor) -> torch.Tensor:
            alias: torch.Tensor = original.__get__(tensor)
            key = id(tensor)
            if key in self._ids:
                kept = self._aliases.setdefault(key, [])
                if len(kept) >= _MAX_ALIASES:
                    self._aliases[key] = kept = [entry for entry in kept if _is_held(entry)]
                full = len(kept) >= _MAX_ALIASES
                self._marked[key] = max(
                    self._marked.get(key, Access.NONE), Access.WRITTEN if full else Access.READ
                )
                if not full:
                    kept.append((alias, version(alias)))
            return alias

        def set_(tensor: torch.Tensor, value: torch.Tensor) -> None:
            self.mark(tensor)
            # They go on sharing the old memory, and would keep it alive.
            self._aliases.pop(id(tensor), None)
            self._asleep.pop(id(tensor), None)
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


def _is_piece(tensor: torch.Tensor) -> bool:
    """Whether a plain tensor fills less than the memory it lies in: a flat buffer's, say."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size() > 0
    )


def _is_held(entry: tuple[torch.Tensor, int]) -> bool:
    """Whether anybody but the entry holds the alias, or a view of it."""
    # One reference is the entry's, one `getrefcount`'s own.
    if sys.getrefcount(entry[0]) > 2:
        return True
    count = getattr(entry[0], "_use_count", None)
    return count is None or count() > 1
