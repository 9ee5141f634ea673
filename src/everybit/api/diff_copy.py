"""Is one folder a copy of the other: every file, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.api.diff_bytes import first_difference, same_json
from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.api.diff_reader import Sources
    from everybit.api.diff_walk import Tree
    from everybit.diff.judge import Group

_MAX_NAMES: Final = 1000
#: Files of the same size that are tried for a file that is missing.
_MAX_TRIED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changed:
    relative: str
    offset: int
    sizes: tuple[int, int]
    json: dict[str, Any] | None


@dataclass(slots=True, kw_only=True)
class CopyCheck:
    """What of A's files is in B.

    Attributes:
        num_files: Files of A.
        num_bytes: Bytes in them.
        equal: Files of the same path and bytes.
        changed: Files of the same path and other bytes.
        missing: Files that are in A only.
        extra: Files that are in B only.
        renamed: Files of A that lie in B under another name, by name: `{in A: in B}`.
        linked: Files of B that are links into A: no copies.
        one_place: A and B are one and the same folder, under two names or one.
        skipped: What could not be compared.
    """

    num_files: int = 0
    num_bytes: int = 0
    equal: set[str] = field(default_factory=set)
    changed: dict[str, _Changed] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    linked: list[str] = field(default_factory=list)
    one_place: bool = False
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def same_bytes(self) -> bool:
        """Whether both folders hold the same files."""
        return self._all_there and not self.extra

    @property
    def complete(self) -> bool:
        """Whether every file of A is in B under its path with equal bytes, and B is not A."""
        return self._all_there and not self.one_place

    @property
    def _all_there(self) -> bool:
        unread = any(item.promised for item in self.skipped)
        return len(self.equal) == self.num_files and not self.linked and not unread

    @property
    def sentence(self) -> str:
        """The answer to "may I delete A"."""
        if self.one_place:
            return "A and B are one and the same folder: B is no copy of A"
        if self.complete:
            more = f"; B holds {_files(len(self.extra))} more" if self.extra else ""
            return f"every file of A is in B with equal bytes ({_files(self.num_files)}{more})"
        counts = [
            (len(self.missing), "missing"),
            (len(self.changed), "with other bytes"),
            (len(self.renamed), "under another name"),
            (len(self.linked), "only linked to A"),
            (sum(item.promised for item in self.skipped), "not compared"),
        ]
        told = ", ".join(f"{count} {what}" for count, what in counts if count)
        return f"not every file of A is in B with equal bytes: {told} of {_files(self.num_files)}"

    def to_json(self) -> dict[str, Any]:
        """Return the `copy` object of a comparison."""
        return {
            "complete": self.complete,
            "sentence": self.sentence,
            "files": self.num_files,
            "bytes": self.num_bytes,
            "equal": len(self.equal),
            "changed": sorted(self.changed)[:_MAX_NAMES],
            "missing": self.missing[:_MAX_NAMES],
            "extra": self.extra[:_MAX_NAMES],
            "renamed": dict(list(self.renamed.items())[:_MAX_NAMES]),
            "linked": self.linked[:_MAX_NAMES],
        }

    def groups(self, compared: set[str]) -> list[Group]:
        """Return the differences that are not of tensors.

        Args:
            compared: Files that were compared tensor by tensor; their bytes may differ.
        """
        from everybit.diff.classes import DifferenceClass
        from everybit.diff.judge import Group

        found: list[Group] = []
        for each in self.changed.values():
            if each.relative in compared:
                continue
            why = f"{each.relative} differs from byte {each.offset} on"
            if each.sizes[0] != each.sizes[1]:
                why += f" ({each.sizes[0]} bytes in A, {each.sizes[1]} in B)"
            facts: dict[str, Any] = {
                "path": each.relative,
                "byte_range": (each.offset, each.offset + 1),
                "size_a": each.sizes[0],
                "size_b": each.sizes[1],
            }
            if each.json is not None and not each.json["num_differing"]:
                self.skipped.append(
                    Skipped(
                        what=f"file {each.relative}",
                        why="other bytes and the same JSON values: written otherwise",
                        promised=False,
                    )
                )
                continue
            if each.json is not None:
                facts |= each.json
                first = each.json["changed"][0]
                why += f"; {first['key']}: {first['a']} in A, {first['b']} in B"
            found.append(
                Group(found=DifferenceClass.FILE_BYTES, differences=[], why=why, evidence=facts)
            )
        for names, kind, why in (
            (self._lost(compared), DifferenceClass.FILE_MISSING, "in A only"),
            (self.linked, DifferenceClass.FILE_MISSING, "in B only as links into A: no copies"),
            (
                [each for each in self.extra if each not in compared],
                DifferenceClass.FILE_EXTRA,
                "in B only",
            ),
            (sorted(self.renamed), DifferenceClass.RENAMED, "in B under another name"),
        ):
            if names:
                found.append(_listed(names, kind, why))
        return found

    def _lost(self, compared: set[str]) -> list[str]:
        return [each for each in self.missing if each not in compared]


def _listed(names: list[str], kind: Any, why: str) -> Group:
    from everybit.diff.judge import Group

    head = names[0] if len(names) == 1 else f"{_files(len(names))}, the first of them {names[0]},"
    return Group(
        found=kind,
        differences=[],
        why=f"{head} {'is' if len(names) == 1 else 'are'} {why}",
        evidence={"path": names[0], "num_files": len(names), "files": names[:_MAX_NAMES]},
    )


def check_copy(sources: Sources, a: Path, one: Tree, b: Path, other: Tree) -> CopyCheck:
    """Compare every file of A with B's of the same path.

    Raises:
        PathError: A file cannot be read.
    """
    out = CopyCheck(num_files=len(one.files), one_place=a.samefile(b))
    same_folder = a.resolve() == b.resolve()
    inside = a.resolve()
    for relative, place in one.files.items():
        out.num_bytes += sources.at(place).size
        there = other.files.get(relative)
        if there is None:
            out.missing.append(relative)
            continue
        if not same_folder and there.is_symlink() and inside in there.resolve().parents:
            out.linked.append(relative)
            continue
        offset = first_difference(sources, place, there)
        if offset is None:
            out.equal.add(relative)
            continue
        sizes = (sources.at(place).size, sources.at(there).size)
        out.changed[relative] = _Changed(
            relative=relative,
            offset=offset,
            sizes=sizes,
            json=same_json(sources, place, there) if relative.endswith(".json") else None,
        )
    out.extra = [each for each in other.files if each not in one.files]
    for relative, why in one.unread.items():
        out.skipped.append(Skipped(what=f"file {relative} of A", why=why))
    for relative, why in other.unread.items():
        out.skipped.append(Skipped(what=f"file {relative} of B", why=why, promised=False))
    _find_renamed(sources, one, other, out)
    return out


def _find_renamed(sources: Sources, one: Tree, other: Tree, out: CopyCheck) -> None:
    """Move what lies in B under another name from the missing to the renamed."""
    by_size: dict[int, list[str]] = {}
    for relative in out.extra:
        by_size.setdefault(sources.at(other.files[relative]).size, []).append(relative)
    for relative in out.missing:
        place = one.files[relative]
        size = sources.at(place).size
        for candidate in by_size.get(size, [])[:_MAX_TRIED] if size else ():
            if first_difference(sources, place, other.files[candidate]) is None:
                out.renamed[relative] = candidate
                break
    out.missing = [each for each in out.missing if each not in out.renamed]
    gone = set(out.renamed.values())
    out.extra = [each for each in out.extra if each not in gone]


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"
