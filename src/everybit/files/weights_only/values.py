"""Inert stand-ins for the objects that torch's unpickler makes.

Lists, tuples, dictionaries and sets are the nodes of `files.pickles.nodes`; None, bool, int, float,
complex, str and bytes stand for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node

#: A plain value, a container node or one of the values below.
Value = Any


@dataclass(frozen=True, slots=True)
class Known:
    """A name that torch allows: a class, a function, a dtype, a storage type, a scheme."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """Something that the model knows nothing of: a refused name, or what came of one.

    Attributes:
        name: Qualified name of the class or function behind it; "" unknown.
        is_global: It is the name itself, not yet called.
        note: What else matters about it (the code of a NumPy dtype).
    """

    name: str
    is_global: bool = False
    note: str = ""


@dataclass(slots=True, eq=False)
class Mapping:
    """An `OrderedDict` or a `Counter`.

    Attributes:
        kind: Which of the two.
        pairs: Its items; a later pair of an equal key wins.
        has_attributes: BUILD gave it attributes, which may hide its methods.
    """

    kind: str
    pairs: list[tuple[Node, Node]]
    has_attributes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ByteArray:
    """A bytearray."""

    length: int


@dataclass(frozen=True, slots=True)
class Size:
    """A `torch.Size`."""

    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """A `torch.device`."""

    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A `torch.layout`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class StorageValue:
    """A storage on the CPU.

    Attributes:
        dtype: Canonical dtype name.
        num_bytes: Its length.
        count: Its number of elements as the persistent id says.
        untyped: The id's type is `torch.UntypedStorage`, which all newer dtypes are written with.
    """

    dtype: str
    num_bytes: int
    count: int
    untyped: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """A tensor.

    Attributes:
        dtype: Canonical dtype name.
        shape: Its shape.
        layout: "strided", "quantized", or the sparse layout.
        device: "cpu" or "meta".
        is_parameter: Its class is `Parameter`.
        contiguous: It is strided and its elements follow each other.
    """

    dtype: str
    shape: tuple[int, ...]
    layout: str = "strided"
    device: str = "cpu"
    is_parameter: bool = False
    contiguous: bool = False
