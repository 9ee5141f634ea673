"""Single values of a torch pickle: a rebuild call, a storage, an array, as descriptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from everybit.files.geometry import STORED_ITEMSIZE, row_major
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    DictNode,
    Global,
    ListNode,
    Node,
    Persistent,
    Text,
    TupleNode,
)
from everybit.files.pickles.storage_types import STORAGE_DTYPES

_MAX_KEY: Final = 1024

#: An array of objects, text or records: there are no numbers in it to vouch for.
NOT_NUMBERS: Final = "an array of something else than numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A storage that the pickle refers to: an archive member under `data/`.

    Attributes:
        key: Its key.
        dtype: Canonical name of its elements' dtype.
        num_bytes: Its length.
        location: The device it was on.
        view: Offset and number of elements where only a part of it is meant, as torch before
            1.0 wrote it; None for all of it.
    """

    key: str
    dtype: str
    num_bytes: int
    location: str
    view: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor as the pickle describes it, before it is found in the archive.

    Attributes:
        name: Dotted key path, unique in the file.
        dtype: Canonical dtype name, or the unknown name as written.
        shape: Shape, unchecked.
        stride: Strides in elements, unchecked.
        storage: Where its elements are; None for an array written inside the pickle.
        offset: Of its first element in the storage, in elements.
        conjugate: Stored conjugated.
        negative: Stored negated.
        inline: Elements and their `[start, end)` in the pickle, in place of a storage.
        problem: Why the description cannot be understood; empty where it can.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    storage: Storage | None = None
    offset: int = 0
    conjugate: bool = False
    negative: bool = False
    inline: tuple[bytes, int, int] | None = None
    problem: str = ""


class OddError(Exception):
    """A rebuild call whose arguments are not what torch writes."""


# -----------------------------------------------------------------------------------


def _integer(node: Node) -> int:
    if isinstance(node, bool) or not isinstance(node, int):
        raise OddError("a size, stride or offset is no integer")
    if node.bit_length() > 63:
        raise OddError("a size, stride or offset exceeds 63 bits")
    return node


def sizes_of(node: Node) -> tuple[int, ...]:
    """Return a shape, stride or offset: a tuple, list or `torch.Size` of integers."""
    if isinstance(node, Call) and node.name == "torch.Size" and node.arguments:
        node = node.arguments[0]
    if not isinstance(node, (TupleNode, ListNode)):
        raise OddError("a shape or stride is no tuple")
    if len(node.items) > 1000:
        raise OddError("a shape of more than 1000 dimensions")
    return tuple(_integer(item) for item in node.items)


def describe_storage(node: Node) -> Storage:
    """Describe a storage: the persistent id ("storage", type, key, location, count)."""
    parts = node.id.items if isinstance(node, Persistent) and isinstance(node.id, TupleNode) else []
    if len(parts) < 5 or as_text(parts[0]) != "storage":
        raise OddError("its storage is not one that torch writes")
    kind, key, location, count = parts[1:5]
    dtype = STORAGE_DTYPES.get(kind.name.rpartition(".")[2]) if isinstance(kind, Global) else None
    if dtype is None:
        named = kind.qualified if isinstance(kind, Global) else "its storage's type"
        raise OddError(f"{named} is no storage type known to this release")
    if isinstance(key, int):
        key = str(_integer(key))
    key = as_text(key)
    if not isinstance(key, str) or len(key) > _MAX_KEY:
        raise OddError("its storage's key is no short text")
    num_bytes = _integer(count) * STORED_ITEMSIZE[dtype]
    location = as_text(location)
    place = location if isinstance(location, str) else ""
    view = parts[5].items if len(parts) > 5 and isinstance(parts[5], TupleNode) else None
    if view is not None and len(view) != 3:
        raise OddError("its storage's view has not three parts")
    part = None if view is None else (_integer(view[1]), _integer(view[2]))
    return Storage(key=key, dtype=dtype, num_bytes=num_bytes, location=place, view=part)


def storage_dtype(kind: Node) -> str | None:
    """Return the canonical dtype of a storage or tensor class of torch; None for another name."""
    if not isinstance(kind, Global):
        return None
    name = kind.name.rpartition(".")[2]
    return STORAGE_DTYPES.get(name) or STORAGE_DTYPES.get(f"{name.removesuffix('Tensor')}Storage")


def as_text(node: Node) -> Node:
    """Return 8-bit text, as Python 2 wrote it, decoded; any other node as it is."""
    return node.data.decode("latin-1") if isinstance(node, Text) else node


def describe_tensor(args: list[Node], name: str) -> TensorSpec:
    """Describe a tensor from the arguments of one of torch's rebuild functions."""
    if len(args) < 4:
        raise OddError(f"{name} has {len(args)} arguments")
    storage = describe_storage(args[0])
    dtype = storage.dtype
    metadata = args[6] if name.endswith("_v2") and len(args) > 6 else None
    if name.endswith("_v3"):
        if len(args) < 7 or not isinstance(args[6], Global):
            raise OddError("its dtype is no name")
        dtype = args[6].name
        metadata = args[7] if len(args) > 7 else None
    if dtype not in STORED_ITEMSIZE:
        raise OddError(f"dtype {dtype[:40]} is not known to this release")
    flags = {}
    if isinstance(metadata, DictNode):
        flags = {key: value for key, value in metadata.pairs if isinstance(key, str)}
    return TensorSpec(
        name="",
        dtype=dtype,
        shape=sizes_of(args[2]),
        stride=sizes_of(args[3]),
        storage=storage,
        offset=_integer(args[1]) + (storage.view[0] if storage.view else 0),
        conjugate=flags.get("conj") is True,
        negative=flags.get("neg") is True,
    )


_NUMPY_KINDS: Final = {
    "b1": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32",
    "i4": "int32", "u8": "uint64", "i8": "int64", "f2": "float16", "f4": "float32",
    "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip


def describe_array(call: Call) -> TensorSpec:
    """Describe a plain NumPy array: BUILD gives it (version, shape, dtype, order, data)."""
    state = call.state.items if isinstance(call.state, TupleNode) else []
    if len(state) != 5:
        raise OddError(NOT_NUMBERS)
    return _plain_array(state[4], state[2], state[1], column_major=state[3] is True)


def describe_buffer_array(call: Call) -> TensorSpec:
    """Describe a plain NumPy array of protocol 5: made from (data, dtype, shape, order)."""
    if len(call.arguments) != 4:
        raise OddError(NOT_NUMBERS)
    data, dtype, shape, order = call.arguments
    return _plain_array(data, dtype, shape, column_major=order == "F")


def _plain_array(data: Node, dtype: Node, sizes: Node, *, column_major: bool) -> TensorSpec:
    if not isinstance(dtype, Call) or not dtype.arguments:
        raise OddError(NOT_NUMBERS)
    kind = dtype.arguments[0]
    name = _NUMPY_KINDS.get(kind) if isinstance(kind, str) else None
    order = dtype.state.items if isinstance(dtype.state, TupleNode) else []
    found = _inline_bytes(data)
    if name is None or found is None or len(order) < 2 or order[1] not in ("<", "|"):
        raise OddError(NOT_NUMBERS)
    raw, start, end = found
    shape = sizes_of(sizes)
    if math.prod(shape) * STORED_ITEMSIZE[name] != len(raw):
        raise OddError(f"an array of shape {list(shape)[:8]} and {len(raw)} bytes of {name}")
    stride = row_major(shape)
    if column_major:
        stride = tuple(reversed(row_major(tuple(reversed(shape)))))
    return TensorSpec(name="", dtype=name, shape=shape, stride=stride, inline=(raw, start, end))


def _inline_bytes(node: Node) -> tuple[bytes, int, int] | None:
    if isinstance(node, Blob):
        return node.data, node.start, node.start + len(node.data)
    if isinstance(node, Call) and node.name == "_codecs.encode" and node.arguments:
        text = node.arguments[0]
        if isinstance(text, str):
            try:
                data = text.encode("latin1")
            except UnicodeEncodeError:
                return None
            # The text ends before the opcodes that encode it; its own place is not recorded.
            return data, -1, -1
    return None
