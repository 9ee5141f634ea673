"""Meet the other ranks of the job: a process group of the Guard's own, or the reason for none.

The job's own groups, their numbers and its collectives are left alone: the group is made directly
over the job's store (or a connection of its own to it), after every rank has said there that it is
watched in the same way. One rank's word, the first that is written, decides for all. Everything
that may block happens in a daemon thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.ranks import rank_and_world

if TYPE_CHECKING:
    from collections.abc import Callable

_c10d: Any = torch.distributed
_YES: Final = "yes"
_POLL_S: Final = 0.02
#: A group that is being made is waited for so long where this rank leaves.
_LAST_WAIT_S: Final = 5.0
#: A round that a rank never comes to is waited for in a thread of gloo's, which costs nothing.
_NEVER: Final = timedelta(days=7)
_NUMBERS: dict[str, itertools.count[int]] = {}


def has_job() -> bool:
    """Whether this process belongs to the process group of a job."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def job_ranks() -> tuple[int, int]:
    """Return this process's rank and how many there are, as the job's process group has it."""
    if not has_job():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def rank_here() -> tuple[int, int]:
    """Return the rank and the number of ranks of the job's process group, else of the launcher.

    Raises:
        UsageError: The launcher's variables make no sense.
    """
    return job_ranks() if has_job() else rank_and_world(os.environ)


class Meeting:
    """The way from "there is a job of several ranks" to a group that all of them belong to.

    Args:
        settings: What has to be the same on all ranks.
        patience_s: How long to wait for a rank that may not be watched.
        purpose: What it is for: meetings for different purposes do not mix, in whatever order
            the ranks come to them.

    Attributes:
        group: The group, once it stands.
        failure: Why there will be none, else "".
        store: Where the ranks meet, once there is a group.
    """

    def __init__(self, settings: str, patience_s: float, purpose: str = "acting") -> None:
        self.group: Any = None
        self.failure = ""
        self.rank, self.world_size = job_ranks()
        self._settings = settings
        self._patience_s = patience_s
        number = next(_NUMBERS.setdefault(purpose, itertools.count()))
        self._name = f"everybit/{purpose}/{number}"
        self.store: Any = None
        self._file = ""
        self._job_store: Any = torch.distributed.distributed_c10d._get_default_store()
        self._parted = threading.Event()
        self._thread = _start(self._meet)

    @property
    def is_over(self) -> bool:
        """Whether there is a group, or never will be."""
        return self.group is not None or bool(self.failure)

    def _meet(self) -> None:
        try:
            store = self.store = _c10d.PrefixStore(self._name, self._own_store(self._job_store))
            self._job_store = None  # Where the job lets go of it, it is gone.
            answer = self._ask(store)
            if answer == _YES:
                group = _c10d.ProcessGroupGloo(
                    _c10d.PrefixStore("group", store),
                    self.rank,
                    self.world_size,
                    timeout=_NEVER,
                )
                # To destroy it waits for its rounds, for ever where a rank never comes: it stays
                # until they have all come out, or the process ends.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
                self.group = group
            else:
                self.failure = answer
        except Exception as error:
            self.failure = f"no group of all ranks: {_first_line(error)}"

    def _own_store(self, store: Any) -> Any:
        """Return a store that the job's own calls never wait for."""
        inner = store
        while isinstance(inner, _c10d.PrefixStore):
            inner = inner.underlying_store
        if isinstance(inner, _c10d.FileStore):
            # The job's file is removed when its last user lets go of it: it must not wait for us.
            mark = store.compare_set(f"{self._name}/file", "", uuid.uuid4().hex[:12]).decode()
            self._file = f"{inner.path}.everybit-{mark}"
            return _c10d.FileStore(self._file, self.world_size)
        try:
            return store.clone()
        except (AttributeError, RuntimeError, NotImplementedError):
            return store

    def _ask(self, store: Any) -> str:
        """Say that this rank is here; return `_YES`, or why there is no group, as all ranks do."""
        store.set(f"rank/{self.rank}", self._settings)
        store.add("present", 1)
        deadline = time.monotonic() + self._patience_s
        while not store.check(["decision"]):
            if store.add("present", 0) >= self.world_size:
                return self._decide(store, self._same_settings(store))
            if time.monotonic() > deadline:
                return self._decide(store, self._who_is_missing(store))
            if self._parted.wait(_POLL_S):
                return "this rank left before the ranks had met"
        return str(store.get("decision").decode())

    def _decide(self, store: Any, proposal: str) -> str:
        return str(store.compare_set("decision", "", proposal).decode())

    def _same_settings(self, store: Any) -> str:
        for rank in range(self.world_size):
            theirs = store.get(f"rank/{rank}").decode()
            if theirs != self._settings:
                return f"rank {rank} is watched with other settings ({theirs}, {self._settings})"
        return _YES

    def _who_is_missing(self, store: Any) -> str:
        missing = [rank for rank in range(self.world_size) if not store.check([f"rank/{rank}"])]
        return f"{tell_ranks(missing)} not watched, or not within {self._patience_s:g} s"

    def find_late(self, number: int) -> Search:
        """Begin to find out which ranks have not come to a round; call it on those that have."""
        return Search(self.store, number, self.rank, self.world_size)

    def part(self, *, pending: bool) -> None:
        """Let go of the group.

        Args:
            pending: Rounds are still under way.
        """
        # A thread that comes back from C++ into an interpreter that ends would abort the process.
        self._parted.set()
        self._thread.join(_LAST_WAIT_S)
        group, self.group = self.group, None
        if group is not None and not pending:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(group))
        store, self.store = self.store, None
        if self._file and store is not None:
            # Who comes last removes it; where a rank never came, the first.
            with contextlib.suppress(OSError, RuntimeError):
                if store.add("left", 1) >= min(store.add("present", 0), self.world_size):
                    Path(self._file).unlink()


class Search:
    """Which ranks are late to a round: each that waits for it for a while says so in the store.

    Args:
        store: The meeting's; None where the ranks have not met.
        number: Which round.
        rank: This process's rank.
        world_size: How many there are.
    """

    def __init__(self, store: Any, number: int, rank: int, world_size: int) -> None:
        self._late: list[int] = []
        self._store = store
        self._keys = [f"late/{number}/{one}" for one in range(world_size)]
        self._rank = rank
        self._over = threading.Event()
        self._wanted = False
        self._thread = _start(self._search)

    def late(self, timeout_s: float) -> list[int]:
        """Return the late ranks; empty where that does not come out in time."""
        self._wanted = True
        self._over.set()
        self._thread.join(timeout_s)
        return self._late

    def cancel(self) -> None:
        """They have come."""
        self._over.set()

    def _search(self) -> None:
        try:
            self._store.set(self._keys[self._rank], "here")
            self._over.wait()
            if self._wanted:
                late = [rank for rank, key in enumerate(self._keys) if not self._store.check([key])]
                self._late = late
        except Exception:  # The rank that holds the store is gone, or they have not met.
            self._late = []


def tell_ranks(ranks: list[int]) -> str:
    """Say which ranks; many are folded.

    >>> tell_ranks([1]), tell_ranks([1, 4]), tell_ranks([])
    ('rank 1', 'ranks 1, 4', 'a rank')
    """
    if not ranks:
        return "a rank"
    shown = ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="everybit-ranks", daemon=True)
    thread.start()
    return thread
