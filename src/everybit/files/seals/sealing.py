"""Sealing: from whole files to the manifest's entries. Damaged files are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.errors import DamagedError, PathError
from everybit.core.tree import TreeHasher, fold_leaves
from everybit.files.elements import expands_too_far, tensor_digest
from everybit.files.passes import Span, no_progress, read_for_seal
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.seals.manifest import SealedFile
from everybit.files.sniff import looks_like_model_name
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_damage, crc_status
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.digest import Digest
    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor


def seal_file(
    path: Path, name: str, *, progress: Callable[[int], None] = no_progress
) -> SealedFile:
    """Read one file and return its entry.

    Args:
        path: The file.
        name: Its path in the manifest.
        progress: Is told the bytes read, as they are.

    Raises:
        PathError: It cannot be read, or changes while it is.
        DamagedError: It is damaged, or something else lies under a model's name; names the rule.
    """
    with ByteSource(path) as source:
        structure = read_structure(source)
        if structure.damages:
            raise structure.damages[0].error(path)
        what, todo = describe_not_a_model(structure.format)
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
            source, spans.values(), [span for _, span in checked], progress=progress
        )
        for member, span in checked:
            if crc_status(member, span.crc) is not None:
                raise crc_damage(source, structure, member, span.crc).error(path)
        tensors = tuple(
            replace(tensor, tree=_digest(source, tensor, plain, spans))
            for tensor in structure.tensors
        )
        if source.changed() or done.num_bytes != source.size:
            raise PathError(
                "changed while it was being sealed",
                where=str(path),
                todo="seal it when nothing writes to it",
            )
        assert done.blake3 is not None
        return SealedFile(
            path=name,
            format=structure.format,
            size_bytes=source.size,
            tree=fold_leaves("bytes", (source.size,), source.size, bytes(done.leaves)),
            blake3=done.blake3,
            leaves=bytes(done.leaves),
            crcs=bytes(done.crcs),
            tensors=tensors,
        )


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


def _digest(
    source: ByteSource,
    tensor: FileTensor,
    plain: set[str],
    spans: dict[tuple[int, int], Span],
) -> Digest | None:
    if tensor.name in plain:
        hasher = spans[tensor.start, tensor.start + tensor.num_bytes].hasher
        assert hasher is not None
        return hasher.digest(tensor.dtype, tensor.shape)
    if tensor.unreadable or expands_too_far(tensor):
        return None
    return tensor_digest(source, tensor)
