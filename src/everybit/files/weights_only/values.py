"""Inert stand-ins for the objects that torch's unpickler makes.

Lists, tuples, dictionaries and sets are the nodes of `files.pickles.nodes`; None, bool, int, float,
complex, str and bytes stand for themselves. Like these nodes they are plain classes with slots. All
but `Mapping` are never changed, and are the same only where they are the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node

#: A plain value, a container node or one of the values below.
Value = Any


class Known:
    """A name that torch allows: a class, a function, a dtype, a storage type, a scheme."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Opaque:
    """Something that the model knows nothing of: a refused name, or what came of one.

    Attributes:
        name: Qualified name of the class or function behind it; "" unknown.
        is_global: It is the name itself, not yet called.
        note: What else matters about it (the code of a NumPy dtype).
    """

    __slots__ = ("is_global", "name", "note")

    def __init__(self, name: str, is_global: bool = False, note: str = "") -> None:
        self.name = name
        self.is_global = is_global
        self.note = note


class Mapping:
    """An `OrderedDict` or a `Counter`.

    Attributes:
        kind: Which of the two.
        pairs: Its items; a later pair of an equal key wins.
        has_attributes: BUILD gave it attributes, which may hide its methods.
    """

    __slots__ = ("has_attributes", "kind", "pairs")

    def __init__(self, kind: str, pairs: list[tuple[Node, Node]]) -> None:
        self.kind = kind
        self.pairs = pairs
        self.has_attributes = False


class ByteArray:
    """A bytearray of this `length`."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


class Size:
    """A `torch.Size` of these `sizes`."""

    __slots__ = ("sizes",)

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes


class Device:
    """A `torch.device` of this type (`name`)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Layout:
    """A `torch.layout` of this `name`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class StorageValue:
    """A storage on the CPU.

    Attributes:
        dtype: Canonical dtype name.
        num_bytes: Its length.
        count: Its number of elements as the persistent id says.
        untyped: The id's type is `torch.UntypedStorage`, which all newer dtypes are written with.
    """

    __slots__ = ("count", "dtype", "num_bytes", "untyped")

    def __init__(self, dtype: str, num_bytes: int, count: int, untyped: bool = False) -> None:
        self.dtype = dtype
        self.num_bytes = num_bytes
        self.count = count
        self.untyped = untyped


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

    __slots__ = ("contiguous", "device", "dtype", "is_parameter", "layout", "shape")

    def __init__(
        self,
        dtype: str,
        shape: tuple[int, ...],
        layout: str = "strided",
        device: str = "cpu",
        is_parameter: bool = False,
        contiguous: bool = False,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.layout = layout
        self.device = device
        self.is_parameter = is_parameter
        self.contiguous = contiguous
