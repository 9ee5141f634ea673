"""A tensor of a model file as a diff sees it, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.digest import Digest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTensor:
    """One stored tensor.

    Attributes:
        path: Its file, relative to what the user named.
        name: Dotted key path in the file.
        dtype: Canonical dtype name.
        shape: Shape.
        num_bytes: Length of the canonical bytes.
        tree: Digest of the canonical bytes; None where they cannot be read.
        unreadable: Why not.
        storage: Where the bytes lie; equal for tensors of a file that are the same bytes.
        read: Returns canonical bytes `[start, end)`.
    """

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    tree: Digest | None
    unreadable: str = ""
    storage: tuple[object, ...] = ()
    read: Callable[[int, int], bytes]

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.num_bytes // max(prod(self.shape), 1)
