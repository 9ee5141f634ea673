"""Interned names: each list of names at a link is written once and then meant by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.link import Link
from everybit.ledger.payload import PayloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from everybit.core.observation import SumTable, TensorTable

#: Past this many lists the writer forgets the old ones: names that change at every step must
#: not fill the memory of the job.
MAX_LISTS: Final = 1024


class NameTable:
    """The writer's side: from (link, names) to a number.

    Args:
        define: Called with the payload of each new list, before its number is first used.
    """

    def __init__(self, define: Callable[[Mapping[str, Any]], None]) -> None:
        self._define = define
        self._next_id = 0
        self._lists: dict[int, tuple[Link, tuple[str, ...]]] = {}
        self._by_value: dict[tuple[Link, tuple[str, ...]], int] = {}
        self._by_identity: dict[tuple[Link, int], int] = {}

    def id_of(self, table: TensorTable | SumTable) -> int:
        """Return the number of a table's names; defines it where it is new."""
        # The list kept in `_lists` keeps the identity in use, so it cannot stand for another.
        known = self._by_identity.get((table.link, id(table.names)))
        if known is not None:
            return known
        key = (table.link, table.names)
        number = self._by_value.get(key)
        if number is None:
            number = self._new(key)
        return number

    @property
    def next_id(self) -> int:
        """The number that the next new list gets."""
        return self._next_id

    def payloads(self, since: int = 0) -> Iterator[Mapping[str, Any]]:
        """Yield the lists from number `since` on again, for the copies that outlive damage."""
        for number, (link, names) in self._lists.items():
            if number >= since:
                yield _payload(number, link, names)

    def _new(self, key: tuple[Link, tuple[str, ...]]) -> int:
        if len(self._lists) >= MAX_LISTS:
            self._lists.clear()
            self._by_value.clear()
            self._by_identity.clear()
        # Counted on first: an interrupt in `define` must not leave a number that means two lists.
        number = self._next_id
        self._next_id += 1
        self._define(_payload(number, *key))
        self._lists[number] = key
        self._by_value[key] = number
        self._by_identity[key[0], id(key[1])] = number
        return number


def _payload(number: int, link: Link, names: tuple[str, ...]) -> Mapping[str, Any]:
    return {"table": number, "link": str(link), "names": list(names)}


def read_names(data: Mapping[str, Any]) -> tuple[int, Link, tuple[str, ...]]:
    """Read a definition back: number, link, names.

    Raises:
        PayloadError: It is none.
    """
    try:
        number, link, names = data["table"], Link(data["link"]), data["names"]
    except (KeyError, ValueError, TypeError) as error:
        raise PayloadError(f"no list of names ({error})") from error
    if type(number) is not int or not isinstance(names, list):
        raise PayloadError("no list of names")
    if not all(isinstance(name, str) for name in names):
        raise PayloadError("a name that is no text")
    return number, link, tuple(names)
