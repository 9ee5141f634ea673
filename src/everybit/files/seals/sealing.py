"""Sealing: from whole files to the manifest's entries. Damaged files are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.errors import DamagedError, PathError
from everybit.core.tree import LEAF_BYTES, TreeHasher, fold_leaves
from everybit.files.elements import canonical_chunks, expands_too_far
from everybit.files.passes import Span, no_progress, read_for_seal
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.seals.counters import Told, read_told
from everybit.files.seals.manifest import SealedFile
from everybit.files.seals.meaning import meaning_of
from everybit.files.sniff import looks_like_model_name
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_damage, crc_status
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor


def seal_file(
    path: Path, name: str, *, progress: Callable[[int], None] = no_progress
) -> SealedFile:
    """Read one file and return its entry; see `read_and_seal`."""
    return read_and_seal(path, name, progress=progress)[0]


def read_and_seal(
    path: Path,
    name: str,
    *,
    sha256: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> tuple[SealedFile, Told]:
    """Read one file and return its entry, and what it tells of its training.

    Args:
        path: The file.
        name: Its path in the manifest.
        sha256: Record SHA-256 as well.
        progress: Is told the bytes read, as they are.

    Raises:
        PathError: It cannot be read, or changes while it is.
        DamagedError: It is damaged, or something else lies under a model's name; names the rule.
    """
    with ByteSource(path) as source:
        structure = read_structure(source)
        if structure.damages:
            raise structure.damages[0].error(path)
        what, todo = describe_not_a_model(structure.format, source)
        if what and looks_like_model_name(path.name):
            raise DamagedError(
                f"{what}, under a model's name", rule="FIL118", where=str(path), todo=todo
            )
        plain, spans = _plan(structure)
        checked = [
            (member, Span(member.start, member.end))
            for member in structure.members
            if structure.has_checksums and member.usable and member.method == STORED
        ]
        done = read_for_seal(
            source,
            spans.values(),
            [span for _, span in checked],
            sha256=sha256,
            progress=progress,
        )
        for member, span in checked:
            if crc_status(member, span.crc) is not None:
                raise crc_damage(source, structure, member, span.crc).error(path)
        tensors, leaves = _digests(source, structure, plain, spans)
        told = read_told(source, structure)
        if source.changed() or done.num_bytes != source.size:
            raise PathError(
                "changed while it was being sealed",
                where=str(path),
                todo="seal it when nothing writes to it",
            )
        file = SealedFile(
            path=name,
            format=structure.format,
            size_bytes=source.size,
            tree=fold_leaves("bytes", (source.size,), source.size, bytes(done.leaves)),
            blake3=done.blake3,
            sha256=done.sha256,
            meaning=meaning_of(source, structure),
            leaves=bytes(done.leaves),
            crcs=bytes(done.crcs),
            tensors=tensors,
            tensor_leaves=leaves,
            parameter_order=told.parameter_order,
        )
        return file, told


def _plan(structure: Structure) -> tuple[set[str], dict[tuple[int, int], Span]]:
    """Choose the tensors that are hashed as the file streams by; equal ranges are hashed once."""
    plain: set[str] = set()
    spans: dict[tuple[int, int], Span] = {}
    budget = 8 * sum(member.size for member in structure.members)
    for tensor in structure.tensors:
        if tensor.unreadable or not tensor.plain or not tensor.num_bytes:
            continue
        key = (tensor.start, tensor.start + tensor.num_bytes)
        if key not in spans:
            if structure.members:
                budget -= tensor.num_bytes
                if budget < 0:  # views of views of one storage: read them one by one
                    continue
            spans[key] = Span(*key, hasher=TreeHasher())
        plain.add(tensor.name)
    return plain, spans


def _digests(
    source: ByteSource,
    structure: Structure,
    plain: set[str],
    spans: dict[tuple[int, int], Span],
) -> tuple[tuple[FileTensor, ...], dict[str, bytes]]:
    """Return the tensors with their digests, and the leaves of those that are stored otherwise."""
    tensors: list[FileTensor] = []
    leaves: dict[str, bytes] = {}
    for tensor in structure.tensors:
        if tensor.name in plain:
            hasher = spans[tensor.start, tensor.start + tensor.num_bytes].hasher
            assert hasher is not None
        elif tensor.unreadable or expands_too_far(tensor):
            tensors.append(tensor)
            continue
        else:
            hasher = TreeHasher()
            for chunk in canonical_chunks(source, tensor):
                hasher.update(chunk)
            if tensor.num_bytes > LEAF_BYTES and not tensor.plain:
                leaves[tensor.name] = hasher.leaves()
        tensors.append(replace(tensor, tree=hasher.digest(tensor.dtype, tensor.shape)))
    return tuple(tensors), leaves
