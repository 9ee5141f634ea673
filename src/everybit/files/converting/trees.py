"""From the files of a checkpoint to one tree, its storages and its tensors; nothing is written."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everybit.core.errors import DamagedError, PathError
from everybit.files.checks.shard_index import shards_of
from everybit.files.collection import paused_collection
from everybit.files.converting.checking import (
    SourceFile,
    read_whole,
    refuse_hostile,
    structure_of,
)
from everybit.files.converting.collecting import Collection
from everybit.files.converting.encoding import Encoder
from everybit.files.converting.origins import read_origin
from everybit.files.converting.sources import Shape
from everybit.files.damage import MalformedError
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.converting.sources import Unit
    from everybit.files.pickles.nodes import Touch
    from everybit.files.tensor import FileFormat


@dataclass(slots=True, kw_only=True)
class Document:
    """One object tree, read.

    Attributes:
        unit: Where it came from.
        found: Its storages and tensors.
        tree: The tree, as JSON.
        shared: What the tree refers to by number, as JSON.
        objects: How often each name that makes an object was met.
        files: The files that were read.
        facts: What they say about their own format.
        findings: What is worth knowing before the result is used.
        notes: Remarks for people.
    """

    unit: Unit
    found: Collection
    tree: Any = None
    shared: list[Any] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)
    files: list[SourceFile] = field(default_factory=list)
    facts: dict[str, str | int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Return a file of the source."""
        return self.unit.root / path if path else self.unit.root


def read_document(unit: Unit, progress: Callable[[int], None]) -> Document:
    """Read one object tree: all of it but the elements of its tensors.

    Raises:
        PathError: A file cannot be read, or holds what this release cannot carry over.
        DamagedError: A file is damaged or hostile; names the rule.
    """
    document = Document(unit=unit, found=Collection(root=unit.root))
    if unit.shape is Shape.DCP:
        from everybit.files.converting.dcp import read_dcp

        read_dcp(document, progress)
    elif unit.shape is Shape.SHARDED:
        _read_shards(document, progress)
    else:
        document.tree = read_file(document, "", progress)
    return document


def read_file(document: Document, path: str, progress: Callable[[int], None]) -> Any:
    """Return the tree of one file, its storages collected.

    Raises:
        PathError: It cannot be read, or holds what this release cannot carry over.
        DamagedError: It is damaged or hostile; names the rule.
    """
    place = document.place(path)
    with ByteSource(place) as source:
        document.findings += refuse_hostile(source, place, path or place.name)
        structure = structure_of(source, place)
        document.files.append(read_whole(source, structure, path or place.name, progress))
        tree = encode_pickle(document, source, path, structure.format, "")
        document.facts.setdefault("format", str(structure.format))
        if source.changed():
            raise PathError("changed while it was read", where=str(place), todo="try again")
    return tree


def encode_pickle(
    document: Document,
    source: ByteSource,
    path: str,
    kind: FileFormat,
    prefix: str,
    *,
    base: int = 0,
) -> Any:
    """Return the tree of the pickle in a file, or in an archive inside it."""
    place = document.place(path)
    try:
        with paused_collection():
            origin = read_origin(source, path, kind, base=base)
            document.facts |= origin.facts
            _refuse_touches(origin.pickle.touches, place)
            if origin.is_script:
                document.notes.append(
                    f"{path or place.name} is a TorchScript archive; its program is not carried "
                    "over, its objects are records"
                )
            encoder = Encoder(origin, document.found, document.shared, document.objects)
            return encoder.run(prefix)
    except MalformedError as error:
        raise error.damage.error(place) from None


def _refuse_touches(touches: list[Touch], place: Path) -> None:
    if touches:
        raise DamagedError(
            f"its pickle would change {getattr(touches[0].target, 'qualified', 'an object')} "
            "where it is imported from",
            rule="PKL201",
            where=str(place),
            todo="nothing was written; `everybit scan` tells all that it would do",
        )


def _read_shards(document: Document, progress: Callable[[int], None]) -> None:
    index = document.unit.index
    assert index is not None
    shards = shards_of(index)
    if shards is None:
        raise DamagedError(
            "is no index of a sharded model", rule="FIL107", where=str(index), todo="fetch it again"
        )
    _refuse_outside(index, sum(len(names) for names in shards.values()))
    merged: dict[str, Any] = {}
    homes: dict[str, str] = {}
    attributes: Any = None
    for shard, expected in shards.items():
        if not document.place(shard).exists():
            raise DamagedError(
                f"is missing; {index.name} lists it",
                rule="FIL103",
                where=str(document.place(shard)),
                todo="fetch it from where the model came from",
            )
        tree = read_file(document, shard, progress)
        if isinstance(tree, dict) and isinstance(tree.get("$ordered"), dict):
            attributes = attributes or tree.get("attributes")
            tree = tree["$ordered"]
        if not isinstance(tree, dict) or any(key.startswith("$") for key in tree):
            raise document.found.refuse(f"{shard} holds something else than a table of tensors")
        _hold_against_index(index, shard, tree, expected)
        for name, value in tree.items():
            if homes.setdefault(name, shard) != shard:
                raise DamagedError(
                    f"{name!r} is in {homes[name]} and in {shard}",
                    rule="FIL114",
                    where=str(index.parent),
                    todo="remove the shard that belongs to another save",
                )
            merged[name] = value
    document.tree = merged
    if attributes is not None:
        document.tree = {"$ordered": merged, "attributes": attributes}


def _refuse_outside(index: Path, num_inside: int) -> None:
    """Refuse an index that names files outside its folder."""
    listed = json.loads(index.read_bytes())["weight_map"]
    if len(listed) != num_inside:
        raise DamagedError(
            f"names files that do not lie beside it, for {len(listed) - num_inside} tensors",
            rule="FIL107",
            where=str(index),
            todo="fetch it again from where the model came from",
        )


def _hold_against_index(index: Path, shard: str, tree: dict[str, Any], expected: list[str]) -> None:
    absent = sorted(set(expected) - tree.keys())
    if absent:
        raise DamagedError(
            f"does not hold {absent[0]!r}, which {index.name} places there",
            rule="FIL114",
            where=str(index.parent / shard),
        )
