"""Tensors sealed from memory against the file as written: damage before or during the save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES, TreeHasher
from everybit.files.elements import canonical_chunks, expands_too_far
from everybit.files.seals.localize import join_ranges

if TYPE_CHECKING:
    from collections.abc import Container

    from everybit.core.finding import Finding
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor


def written_damaged(
    source: ByteSource, sealed: SealedFile, name: str, told: Container[str | None]
) -> list[Finding]:
    """Return findings for tensors that the file holds with other values than memory held.

    Args:
        source: The file.
        sealed: Its entry, whose tensor digests were taken in memory.
        name: Its path relative to the target.
        told: Tensors of which another finding speaks already.
    """
    findings = []
    for tensor in sealed.tensors:
        if tensor.tree is None or tensor.unreadable or tensor.name in told:
            continue
        if expands_too_far(tensor) or any(end > source.size for _, end in tensor.byte_ranges):
            continue
        hasher = TreeHasher()
        for chunk in canonical_chunks(source, tensor):
            hasher.update(chunk)
        found = hasher.digest(tensor.dtype, tensor.shape)
        if found != tensor.tree:
            right = sealed.tensor_leaves.get(tensor.name, b"")
            findings.append(_finding(tensor, str(found), right, hasher.leaves(), name))
    return findings


def _finding(tensor: FileTensor, found: str, right: bytes, leaves: bytes, name: str) -> Finding:
    place: dict[str, Any] = {}
    evidence: dict[str, Any] = {
        "expected": str(tensor.tree),
        "found": found,
        "expected_from": "memory, before the file was written",
    }
    blocks = _other_leaves(tensor, right, leaves)
    if blocks:
        place["element_ranges"] = tuple(blocks)
        evidence["resolution_bytes"] = LEAF_BYTES
    return rule("FIL102").finding(
        f"{name}: tensor {tensor.name} was written with other values than it had in memory",
        where=Location(
            path=name,
            tensor=tensor.name,
            member=tensor.member,
            byte_ranges=tensor.byte_ranges or None,
            **place,
        ),
        evidence=evidence,
        remedy="Save again from the source; a copy of this file holds the same damage.",
    )


def _other_leaves(tensor: FileTensor, right: bytes, leaves: bytes) -> list[tuple[int, int]]:
    """Return the elements in the leaves that differ; none where the leaves were not recorded."""
    if len(right) != len(leaves):
        return []
    blocks = []
    for index in range(len(leaves) // LEAF_DIGEST_BYTES):
        part = slice(index * LEAF_DIGEST_BYTES, (index + 1) * LEAF_DIGEST_BYTES)
        if right[part] != leaves[part]:
            end = min((index + 1) * LEAF_BYTES, tensor.num_bytes)
            blocks.append((index * LEAF_BYTES // tensor.itemsize, -(-end // tensor.itemsize)))
    return join_ranges(blocks)
