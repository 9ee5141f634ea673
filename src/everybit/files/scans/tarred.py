"""Tar archives: their members, their links, and the three parts of torch's first format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.damage import MalformedError
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.pickles.torch_values import storage_dtype
from everybit.files.scans.content import Content
from everybit.files.scans.names import name_problem
from everybit.files.scans.streams import judge
from everybit.files.tar import TarEntry, read_entries, read_tar
from everybit.files.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.pickles.nodes import Node
    from everybit.files.scans.walk import Walk

_LINKS: Final = {b"1": "a hard link", b"2": "a link"}
_DEVICES: Final = {b"3": "a device", b"4": "a device", b"6": "a pipe"}
_ADVICE: Final = "Do not unpack it; ask its author for plain files."
#: Members of torch's first format in which pickles and raw numbers alternate.
_TORCH: Final = ("storages", "tensors")
_PICKLES: Final = frozenset({"pickle", "sys_info"})
_UNPACKED: Final = frozenset({*_TORCH, *_PICKLES})
_MAX_LISTED: Final = 16
_MAX_ITEMS: Final = 100_000


def look_into_tar(content: Content, walk: Walk) -> None:
    """Look into every member of a tar archive, and tell of names and links that lead astray."""
    walk.outcome.count("archives")
    entries = list(read_entries(content.source))
    _, damages = read_tar(content.source, most=len(entries) + 1)
    for damage in damages:
        walk.damaged(content, damage)
    _tell_names(content, walk, entries)
    names = {entry.name for entry in entries}
    of_torch = len(names & {"pickle", "tensors", "storages"}) >= 2
    # torch unpacks a link to another member as that member.
    linked = {e.target: e.name for e in entries if e.kind in _LINKS and e.name in _UNPACKED}
    for entry in entries:
        if not entry.regular:
            continue
        name = linked.get(entry.name, entry.name)
        child = Content(
            source=Window(content.source, entry.start, entry.end),
            path=content.path,
            member=content.inside(entry.name),
            start=None if content.start is None else content.start + entry.start,
            depth=content.depth + 1,
            by_law=of_torch and name in _PICKLES,
            partial=content.partial,
        )
        if of_torch and name in _TORCH and walk.enter(child):
            _look_into_records(child, walk, name)
        else:
            walk.look(child, walk)


def _tell_names(content: Content, walk: Walk, entries: list[TarEntry]) -> None:
    odd = [(e, name_problem(e.name)) for e in entries]
    _tell(content, walk, [(e, p) for e, p in odd if p], "has a member whose name leads astray")
    links = [(e, f"{_LINKS[e.kind]} to {e.target!r}") for e in entries if e.kind in _LINKS]
    outside = [(e, why) for e, why in links if _leads_out(e)]
    _tell(content, walk, outside, "has a link that leads out of the folder")
    inside = [pair for pair in links if pair not in outside]
    _tell(content, walk, inside, "has a link", severity=Severity.NOTE)
    devices = [(e, _DEVICES[e.kind]) for e in entries if e.kind in _DEVICES]
    _tell(content, walk, devices, "has a member that is no file")
    seen: dict[str, TarEntry] = {}
    twice = [
        (entry, "stands twice")
        for entry in entries
        if entry.regular and seen.setdefault(entry.name, entry) is not entry
    ]
    _tell(content, walk, twice, "has duplicate members, of which some readers take the first")


def _leads_out(entry: TarEntry) -> bool:
    """Return whether a link's target lies outside the folder into which all is unpacked."""
    if name_problem(entry.target) == "is an absolute path":
        return True
    depth = entry.name.count("/") if entry.kind == b"2" else 0
    for part in entry.target.replace("\\", "/").split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False


def _tell(
    content: Content,
    walk: Walk,
    odd: list[tuple[TarEntry, str]],
    what: str,
    *,
    severity: Severity = Severity.ERROR,
) -> None:
    if not odd:
        return
    first, why = odd[0]
    more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
    walk.tell(
        content,
        f"{what}: {first.name!r} ({why}){more}",
        where=content.place(first.header_start, first.header_start + 512),
        severity=severity,
        remedy=_ADVICE,
        trick="links" if "link" in what else "member names",
        members=[f"{e.name!r}: {why}" for e, why in odd[:_MAX_LISTED]],
    )


def _look_into_records(content: Content, walk: Walk, name: str) -> None:
    """Judge the pickles between the raw numbers of torch's first format."""
    source = content.source
    pieces: list[tuple[int, bytes]] = []
    at = 0
    try:
        first = read_pickle_at(source, 0, f"the number of its {name}")
        pieces.append((0, source.read(0, first.end)))
        at = first.end
        count = first.pickle.result
        for _ in range(min(count, _MAX_ITEMS) if type(count) is int else 0):
            placed = read_pickle_at(source, at, f"a record of its {name}")
            pieces.append((at, source.read(at, placed.end - at)))
            at = placed.end
            at += _raw_length(source.read(at, 8), placed.pickle.result, name)
        if name == "storages" and at < source.size:
            placed = read_pickle_at(source, at, "the list of views of its storages")
            pieces.append((at, source.read(at, placed.end - at)))
            at = placed.end
    except MalformedError as error:
        walk.damaged(content, error.damage)
        pieces.append((at, source.read(at, 1024 * 1024)))
    walk.outcome.count("pickles", len(pieces))
    judge(content, walk, b"".join(data for _, data in pieces), place=_placer(pieces))


def _placer(pieces: list[tuple[int, bytes]]) -> Callable[[int], int]:
    def place(position: int) -> int:
        for start, data in pieces:
            if position < len(data):
                return start + position
            position -= len(data)
        return pieces[-1][0] + len(pieces[-1][1])

    return place


def _raw_length(head: bytes, record: Node, name: str) -> int:
    """Return how many raw bytes follow a record's pickle."""
    if name == "tensors":
        dims = int.from_bytes(head[:4], "little", signed=True)
        return 8 + 16 * max(0, min(dims, 64)) + 8
    items = getattr(record, "items", [])
    dtype = storage_dtype(items[2]) if len(items) == 3 else None
    count = int.from_bytes(head, "little", signed=True)
    return 8 + max(0, count) * STORED_ITEMSIZE.get(dtype or "", 1)
