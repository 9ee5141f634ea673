"""An index of shards against the shards that are there: where each tensor lies, and should."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.checkpoints.names import shard_of
from everybit.files.checkpoints.odd_shard import find_odd_shards
from everybit.files.damage import malformed
from everybit.files.outcome import Outcome
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Contents, Shelf

_MAX_BYTES: Final = 64 * 1024 * 1024
_LISTED: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index file.

    Attributes:
        name: Its path relative to the target.
        weight_map: `{tensor: shard}`, as written.
        total_size: Bytes of all tensors, where it says so.
        outside: Shards whose names lead out of the folder; they are not looked at.
    """

    name: str
    weight_map: Mapping[str, str]
    total_size: int | None = None
    outside: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder it lies in, with its slash; empty for the target itself."""
        above = self.name.rpartition("/")[0]
        return f"{above}/" if above else ""

    def expected(self) -> dict[str, set[str]]:
        """Return the tensors that it places in each shard."""
        found: dict[str, set[str]] = {}
        for tensor, shard in self.weight_map.items():
            found.setdefault(shard, set()).add(tensor)
        return dict(sorted(found.items()))


class _DuplicateError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _DuplicateError(f"key {twice[:80]!r} stands twice")
    return found


def read_index(path: Path, name: str) -> Index | None:
    """Read an index; None where it is larger than any that this release reads.

    Raises:
        PathError: It cannot be opened.
        MalformedError: It is no index (FIL107).
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return None
        data = source.read(0, source.size)
    try:
        found = json.loads(data, object_pairs_hook=_unique)
        pairs = {str(tensor): str(shard) for tensor, shard in found["weight_map"].items()}
        size: Any = (found.get("metadata") or {}).get("total_size")
    except json.JSONDecodeError as error:
        at = min(len(error.doc[: error.pos].encode("utf-8", "replace")), len(data))
        cut = at >= len(data)
        place: dict[str, Any] = {} if cut else {"byte_range": (at, min(at + 1, len(data)))}
        raise malformed(f"the index is not JSON: {error.msg} at byte {at}", **place) from None
    except _DuplicateError as error:
        raise malformed(f"the index cannot be right: {error}") from None
    except (ValueError, RecursionError):
        raise malformed("the index is not JSON: its text or its numbers") from None
    except (KeyError, TypeError, AttributeError):
        raise malformed("the index has no table of tensors and shards (weight_map)") from None
    outside = tuple(sorted({shard for shard in pairs.values() if not _stays_inside(shard)}))
    return Index(
        name=name,
        weight_map={t: s for t, s in pairs.items() if s not in outside} if outside else pairs,
        total_size=int(size) if isinstance(size, int | float) and 0 <= size < 1 << 63 else None,
        outside=outside,
    )


def _stays_inside(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return bool(name) and "\0" not in name and not name.startswith("/") and ".." not in parts


@dataclass(slots=True, kw_only=True)
class _Work:
    index: Index
    shelf: Shelf
    outcome: Outcome = field(default_factory=Outcome)
    held: dict[str, Contents] = field(default_factory=dict)
    blamed: set[str] = field(default_factory=set)

    def say(self, key: str, message: str, shard: str, **more: Any) -> Finding:
        where = Location(path=self.index.folder + shard, tensor=more.pop("tensor", None))
        evidence = {"listed_by": self.index.name, **more.pop("evidence", {})}
        finding = rule(key).finding(message, where=where, evidence=evidence, **more)
        self.outcome.findings.append(finding)
        self.blamed.add(shard)
        return finding


def check_index(
    shelf: Shelf, index: Index, *, damaged: set[str], sealed: set[str], full: bool
) -> Outcome:
    """Hold the shards that an index lists against it.

    Args:
        shelf: The target's files.
        index: The index.
        damaged: Files with findings of their own, which explain what they lack.
        sealed: Files that a manifest lists; it told of those that are gone.
        full: Bytes of tensors that lie in two shards may be compared.
    """
    work = _Work(index=index, shelf=shelf)
    expected = index.expected()
    for shard in index.outside:
        why = "its name leads out of the folder"
        what = f"{index.name}: shard {shard[:80]!r}"
        work.outcome.skipped.append(Skipped(what=what, why=why, promised=False))
    unread = False
    for shard in expected:
        name = index.folder + shard
        if name not in shelf.files or not shelf.files[name].exists():
            if name not in sealed:
                _tell_missing(work, shard, len(expected[shard]), len(expected))
            unread = True
            continue
        found = shelf.whole(name)
        if found is None or not (found.tensors or found.format.readable):
            unread = True
            if name not in damaged:
                contents = shelf.get(name)
                why = contents.why if contents else shelf.unread.get(name, "it cannot be read")
                what = f"{index.name}: tensors of {name}"
                work.outcome.skipped.append(Skipped(what=what, why=why))
            continue
        work.held[shard] = found
    held = {shard: {tensor.name for tensor in found.tensors} for shard, found in work.held.items()}
    for shard in list(_tell_exchanged(work, expected, held)):
        held.pop(shard)
    _tell_contents(work, expected, held, full=full)
    _tell_leftovers(work, expected)
    for odd in find_odd_shards({s: c for s, c in work.held.items() if s not in work.blamed}):
        work.say(
            "FIL106",
            f"{index.folder}{odd.shard} comes from another save: {odd.message}",
            odd.shard,
            tensor=odd.tensor,
            evidence=odd.evidence,
            remedy=f"Fetch {odd.shard} again from the save that the other shards come from.",
        )
    if not unread and not work.blamed:
        _tell_total(work)
    work.outcome.count("shards listed by an index", len(expected))
    return work.outcome


def _tell_missing(work: _Work, shard: str, num_tensors: int, num_shards: int) -> None:
    name = work.index.folder + shard
    work.say(
        "FIL103",
        f"{name} is listed by {work.index.name} and is not there",
        shard,
        evidence={"num_tensors": num_tensors, "num_shards": num_shards},
        remedy=f"Fetch {shard} again; the other shards need not be fetched for it.",
    )


def _tell_exchanged(
    work: _Work, expected: dict[str, set[str]], held: dict[str, set[str]]
) -> Iterator[str]:
    """Tell of shards that hold what the index places in another one; yield these."""
    by_content = {frozenset(tensors): shard for shard, tensors in expected.items()}
    content_of = {
        shard: by_content[frozenset(tensors)]
        for shard, tensors in held.items()
        if frozenset(tensors) in by_content and tensors != expected[shard]
    }
    for shard, other in content_of.items():
        if content_of.get(other) == shard:
            if shard < other:
                work.say(
                    "FIL106",
                    f"{work.index.folder}{shard} and {other} are exchanged: each holds the "
                    f"tensors that {work.index.name} places in the other",
                    shard,
                    tensor=min(held[shard]),
                    evidence={"holds": other, "num_tensors": len(held[shard])},
                    remedy=f"Exchange the names of {shard} and {other}, or fetch both again.",
                )
            work.blamed.add(shard)
        else:
            work.say(
                "FIL106",
                f"{work.index.folder}{shard} holds the tensors that {work.index.name} places in "
                f"{other}, not its own",
                shard,
                tensor=min(held[shard]),
                evidence={
                    "holds": other,
                    "num_tensors": len(held[shard]),
                    "missing": sorted(expected[shard])[:_LISTED],
                },
                remedy=f"Fetch {shard} again.",
            )
        yield shard


def _tell_contents(
    work: _Work, expected: dict[str, set[str]], held: dict[str, set[str]], *, full: bool
) -> None:
    places: dict[str, list[str]] = {}
    for shard, tensors in held.items():
        for tensor in tensors:
            places.setdefault(tensor, []).append(shard)
    for shard, tensors in held.items():
        name = work.index.folder + shard
        absent = sorted(expected[shard] - tensors)
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            elsewhere = {t: places[t][0] for t in absent if t in places}
            note = f"; it lies in {elsewhere[absent[0]]}" if absent[0] in elsewhere else ""
            work.say(
                "FIL114",
                f"{name} does not hold {absent[0]}{more}, which {work.index.name} places there"
                f"{note}",
                shard,
                tensor=absent[0],
                evidence={
                    "num_expected": len(expected[shard]),
                    "num_missing": len(absent),
                    "missing": absent[:_LISTED],
                    **({"found_in": dict(list(elsewhere.items())[:_LISTED])} if elsewhere else {}),
                },
                remedy=f"Fetch {work.index.name} and {shard} again from one save.",
            )
        moved = {t for t in tensors - expected[shard] if _absent_from_its_own(work, t, held)}
        extra = sorted(tensors - expected[shard] - moved)
        unlisted = [t for t in extra if t not in work.index.weight_map]
        if unlisted:
            more = f" and {len(unlisted) - 1} more" if len(unlisted) > 1 else ""
            work.say(
                "FIL114",
                f"{name} holds {unlisted[0]}{more}, which {work.index.name} does not list",
                shard,
                tensor=unlisted[0],
                evidence={"num_unlisted": len(unlisted), "unlisted": unlisted[:_LISTED]},
                severity=Severity.WARNING,
                remedy=f"Fetch {work.index.name} again: loaders that follow it leave this out.",
            )
        for tensor in [t for t in extra if t in work.index.weight_map][:_LISTED]:
            _tell_twice(work, tensor, shard, full=full)


def _absent_from_its_own(work: _Work, tensor: str, held: dict[str, set[str]]) -> bool:
    """Return whether the index places a tensor in a readable shard that does not hold it."""
    own = work.index.weight_map.get(tensor)
    return own in held and tensor not in held[own]


def _tell_twice(work: _Work, tensor: str, shard: str, *, full: bool) -> None:
    own = work.index.weight_map[tensor]
    first, second = work.held.get(own), work.held[shard]
    one = first.by_name().get(tensor) if first is not None else None
    if first is None or one is None:
        return  # it lies here instead of there, which is told of the other shard
    other = second.by_name()[tensor]
    differ = (one.dtype, one.shape) != (other.dtype, other.shape)
    if not differ and full:
        digests = work.shelf.digests
        differ = digests.of(first, [one]) != digests.of(second, [other])
    how = "and the two differ" if differ else "with the same bytes" if full else "twice"
    work.say(
        "FIL114",
        f"{tensor} lies in {work.index.folder}{shard} as well as in {own}, where "
        f"{work.index.name} places it, {how}",
        shard,
        tensor=tensor,
        evidence={"also_in": own, "equal": not differ if full or differ else None},
        severity=Severity.ERROR if differ else Severity.WARNING,
        certainty=Certainty.STRONG,
        remedy=f"Fetch {shard} and {own} again from one save.",
    )


def _tell_leftovers(work: _Work, expected: dict[str, set[str]]) -> None:
    """Tell of shards of another sharding beside those that the index lists."""
    known = [found for shard in expected if (found := shard_of(shard))]
    if not known:
        return
    stem, count = known[0][0], known[0][2]
    for name in work.shelf.files:
        above, _, short = name.rpartition("/")
        found = shard_of(short)
        if (f"{above}/" if above else "") != work.index.folder or short in expected:
            continue
        if found is None or found[0] != stem:
            continue
        work.say(
            "FIL106",
            f"{name} is left over from another save: {work.index.name} lists {len(expected)} "
            f"shards of {count} and not this one",
            short,
            evidence={"num_shards": count, "left_from": found[2]},
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
            remedy=f"Remove {short}: loaders that take every shard in the folder would load it.",
        )
    whole = work.shelf.whole(work.index.folder + stem)
    if whole is not None:
        _tell_unsharded(work, whole, stem)


def _tell_unsharded(work: _Work, whole: Contents, stem: str) -> None:
    there = {t.name: t for found in work.held.values() for t in found.tensors}
    both = [(t, there[t.name]) for t in whole.tensors if t.name in there]
    odd = next((a for a, b in both if (a.dtype, a.shape) != (b.dtype, b.shape)), None)
    if odd is None:
        return
    work.say(
        "FIL106",
        f"{whole.name} lies beside {work.index.name} and is another model: {odd.name} has "
        f"{odd.dtype} {list(odd.shape)} there, {there[odd.name].dtype} "
        f"{list(there[odd.name].shape)} in the shards",
        stem,
        tensor=odd.name,
        severity=Severity.WARNING,
        certainty=Certainty.STRONG,
        remedy=f"Remove the one that is stale: loaders take {stem} and leave the shards.",
    )


def _tell_total(work: _Work) -> None:
    """Note a total size that no way of counting the tensors gives."""
    total = work.index.total_size
    tensors = [(s, t) for s, found in work.held.items() for t in found.tensors]
    if total is None or not tensors:
        return
    counted = sum(tensor.num_bytes for _, tensor in tensors)
    once = sum({(s, t.member, t.byte_ranges): t.num_bytes for s, t in tensors}.values())
    if total in (counted, once):
        return
    work.outcome.findings.append(
        rule("FIL114").finding(
            f"{work.index.name} gives a total of {total} bytes; its shards hold {counted}",
            where=Location(path=work.index.name),
            evidence={"total_size": total, "counted_bytes": counted},
            severity=Severity.NOTE,
            certainty=Certainty.WEAK,
            remedy="Nothing loads by this number; that it is off may show an older index.",
        )
    )
