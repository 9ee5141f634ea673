"""Model files at rest: formats read without torch, digests, manifests, and what changed.

sniff -> structure -> tensors       one file: what it is, what it holds, what cannot be right
seal  -> manifest  -> verify        digests of files and tensors, and where bytes differ
scan                                what a file would make its loader do

The names below arrive when they are first used: a verb pays for the parts that it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from everybit.files.pickles.plain_values import read_plain_values
    from everybit.files.reading import read_tensor_bytes, read_tensors
    from everybit.files.tensor import FileFormat, FileTensor, FileTensors

__all__ = [
    "FileFormat",
    "FileTensor",
    "FileTensors",
    "read_plain_values",
    "read_tensor_bytes",
    "read_tensors",
]

_HOME: Final = {
    "FileFormat": "everybit.files.tensor",
    "FileTensor": "everybit.files.tensor",
    "FileTensors": "everybit.files.tensor",
    "read_plain_values": "everybit.files.pickles.plain_values",
    "read_tensor_bytes": "everybit.files.reading",
    "read_tensors": "everybit.files.reading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'everybit.files' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
