"""A notice board of the ranks: what a few of them want to know of one another, once in a while.

It lies in the store that the ranks met at. To read is no collective: who never writes is missed by
those who look for it, and holds up nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Stores take values of 8 MiB at most.
_PIECE_BYTES: Final = 4 << 20


class Board:
    """Notes by topic and rank, each written once.

    Args:
        store: The ranks' store.
        rank: This process's rank.
    """

    def __init__(self, store: Any, rank: int) -> None:
        self.rank = rank
        self._store = store
        self._mine: list[str] = []

    def put(self, topic: str, note: bytes) -> None:
        """Put up this rank's note on a topic."""
        key = f"{topic}/{self.rank}"
        pieces = [note[at : at + _PIECE_BYTES] for at in range(0, len(note), _PIECE_BYTES)]
        for index, piece in enumerate(pieces):
            self._store.set(f"{key}/{index}", piece)
        self._store.set(key, str(len(pieces)))
        self._mine += [key, *(f"{key}/{index}" for index in range(len(pieces)))]

    def has(self, topic: str, ranks: Iterable[int]) -> bool:
        """Whether all these ranks have put up a note on a topic."""
        keys = [f"{topic}/{rank}" for rank in ranks]
        return not keys or bool(self._store.check(keys))

    def get(self, topic: str, rank: int) -> bytes:
        """Return a rank's note, which is there."""
        key = f"{topic}/{rank}"
        num_pieces = int(self._store.get(key).decode())
        return b"".join(self._store.get(f"{key}/{index}") for index in range(num_pieces))
