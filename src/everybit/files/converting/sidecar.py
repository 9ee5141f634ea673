"""The sidecar `<name>.state.json`: everything of a checkpoint but the elements of its tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.files.converting.known import KNOWN, library_of
from everybit.files.geometry import row_major

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.digest import Digest
    from everybit.files.converting.shards import Shard
    from everybit.files.converting.storages import Entry, Storage, View
    from everybit.files.converting.trees import Document

SCHEMA: Final = "everybit.state/1"
SUFFIX: Final = ".state.json"
#: Above this many objects the text is written without indentation.
_INDENTED: Final = 200_000


def sidecar_text(
    document: Document, shards: list[Shard], entries: list[Entry], digests: Mapping[str, Digest]
) -> str:
    """Return the sidecar of a document.

    Args:
        document: What was converted.
        shards: The safetensors files.
        entries: What is in them.
        digests: Of each entry's bytes, by name.
    """
    pieces: dict[int, list[Entry]] = {}
    for entry in entries:
        pieces.setdefault(entry.storage, []).append(entry)
    state = {
        "schema": SCHEMA,
        "converted_by": f"everybit {__version__}",
        "source": {
            "name": document.unit.root.name,
            "layout": str(document.unit.shape),
            **document.facts,
            "files": [
                {"path": each.path, "size_bytes": each.size_bytes, "sha256": each.sha256}
                for each in document.files
            ],
        },
        "data": {
            "files": [shard.name for shard in shards],
            "num_entries": len(entries),
            "num_bytes": sum(entry.num_bytes for entry in entries),
        },
        "records": records_of(document),
        "storages": [
            _storage(storage, pieces.get(storage.index, []), digests)
            for storage in document.found.storages
        ],
        "tensors": _tensors(document),
        "shared": document.shared,
        "tree": document.tree,
    }
    small = len(document.found.views) + sum(document.objects.values()) < _INDENTED
    text = json.dumps(
        state,
        ensure_ascii=False,
        allow_nan=False,
        indent=1 if small else None,
        separators=None if small else (",", ":"),
    )
    return text + "\n"


def records_of(document: Document) -> list[dict[str, Any]]:
    """Return the names of objects that stay records when they are restored."""
    return [
        {"name": name, "count": count, "library": library_of(name)}
        for name, count in sorted(document.objects.items())
        if name not in KNOWN
    ]


def _storage(storage: Storage, pieces: list[Entry], digests: Mapping[str, Digest]) -> Any:
    found: dict[str, Any] = {
        "dtype": storage.dtype,
        "num_bytes": storage.num_bytes,
        "device": storage.device,
        "pieces": [],
    }
    for piece in pieces:
        told: dict[str, Any] = {"entry": piece.name}
        if piece.at:
            told["at"] = piece.at
        if piece.view is not None and not piece.view.as_stored:
            told["values_of"] = piece.view.name
        told["digest"] = str(digests[piece.name])
        found["pieces"].append(told)
    return found


def _tensors(document: Document) -> dict[str, Any]:
    homes = {
        view.name: storage.index for storage in document.found.storages for view in storage.views
    }
    return {name: _view(view, homes[name]) for name, view in document.found.views.items()}


def _view(view: View, storage: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "storage": storage, "dtype": view.dtype, "shape": list(view.shape),
    }  # fmt: skip
    if view.stride != row_major(view.shape):
        found["stride"] = list(view.stride)
    if view.offset:
        found["offset"] = view.offset
    flags = {
        "conjugate": view.conjugate,
        "negative": view.negative,
        "requires_grad": view.requires_grad,
    }
    return found | {name: True for name, is_set in flags.items() if is_set}
