"""What ranks tell each other of their data: small texts in the store in which they met.

Nothing waits: a rank writes what it has, and the first rank looks now and then whether the others
have. No collective is made, and the job's own are left alone.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.meeting import has_job, job_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Ranks that are compared; in a larger job these stand for all.
MAX_RANKS: Final = 64
#: Longer texts are not sent.
MAX_BYTES: Final = 1 << 18


class Exchange:
    """Texts by key and rank. An error of the store ends it, and nothing else.

    Attributes:
        failure: Why ranks are not compared, else "".
    """

    def __init__(self) -> None:
        self.failure = ""
        self._store: Any = None
        self._written: dict[str, str] = {}
        self._sent: set[str] = set()
        self._read: set[str] = set()

    def put(self, key: str, value: Any) -> None:
        """Let the other ranks know a JSON-ready value, as soon as there are any."""
        text = json.dumps(value)
        if key not in self._written and len(text) <= MAX_BYTES:
            self._written[key] = text

    def poll(self) -> list[tuple[str, Mapping[int, Any]]]:
        """Return `(key, values by rank)` of what all ranks have told; on the first rank only."""
        if self.failure or not self._written or not has_job():
            return []
        rank, world_size = job_ranks()
        if world_size < 2 or rank >= MAX_RANKS:
            return []
        try:
            return self._poll(rank, min(world_size, MAX_RANKS))
        except Exception as error:  # The rank that holds the store is gone, say.
            self.failure = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return []

    def _poll(self, rank: int, num_ranks: int) -> list[tuple[str, Mapping[int, Any]]]:
        if self._store is None:
            distributed: Any = torch.distributed
            store = distributed.distributed_c10d._get_default_store()
            with contextlib.suppress(AttributeError, RuntimeError, NotImplementedError):
                store = store.clone()  # The job's own calls may wait, and hold theirs.
            self._store = distributed.PrefixStore("everybit/contents", store)
        for key, text in self._written.items():
            if key not in self._sent:
                self._sent.add(key)
                self._store.set(f"{key}/{rank}", text)
        if rank:
            return []
        found: list[tuple[str, Mapping[int, Any]]] = []
        for key in self._written.keys() - self._read:
            names = [f"{key}/{other}" for other in range(num_ranks)]
            if self._store.check(names):
                self._read.add(key)
                values = {
                    other: json.loads(self._store.get(name)) for other, name in enumerate(names)
                }
                found.append((key, values))
        return found
