"""A digest as a value: which definition, which bits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Algorithm(StrEnum):
    """The digests that everybit records."""

    TREE = "tree"
    GRID = "grid"
    BLAKE3 = "blake3"
    SHA256 = "sha256"


@dataclass(frozen=True, slots=True)
class Digest:
    """An algorithm's name and its value in hexadecimal, most significant digit first.

    >>> str(Digest(Algorithm.GRID, "00000000000000ff"))
    'grid:00000000000000ff'
    >>> Digest.parse("grid:00000000000000ff").word
    255
    """

    algorithm: Algorithm
    hex: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.hex}"

    @property
    def word(self) -> int:
        """The first 64 bits as an integer, as the ledger keeps them."""
        return int(self.hex[:16], 16)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the `algorithm:hex` form; raises `ValueError` where it is none."""
        name, _, value = text.partition(":")
        if not value or value != value.lower():
            raise ValueError(f"not a digest: {text!r}")
        int(value, 16)
        return cls(Algorithm(name), value)


def tensor_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes that stand for dtype and shape in every digest of a tensor.

    >>> tensor_header("float32", (2, 3))
    b'float32[2,3]'
    """
    return f"{dtype}[{','.join(map(str, shape))}]".encode()
