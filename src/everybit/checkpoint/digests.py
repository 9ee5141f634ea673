r"""`everybit.digest`: one digest for any nest of tensors, arrays and plain values.

A tensor or an array has the `tree` digest that a manifest records for it: its dtype's name, its
shape, and its elements contiguous and little-endian. Everything else is encoded as a tag and a
content and the digest is XXH3-128 of `b"everybit.nest/1\0"` and that encoding:

    None N    False F    True T    int i + decimal    float f + 8 bytes    complex c + 16 bytes
    str s + UTF-8    bytes b    tensor, array t + its 16 bytes    dtype D + name
    list l, tuple u: XXH3-128 of the number of items and the items
    mapping d: the same over its pairs, sorted by encoded key: their order does not count
    set S: the same over its items, sorted    dataclass o: its class and the mapping of its fields
    member of an enumeration e: its class and name
    sparse q, quantised q: the mapping of their parts

Integers and lengths are little-endian 64-bit numbers; a text, bytes or number is preceded by its
length. A module, an optimizer, and anything else with a `state_dict` method, is its state dict.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
import xxhash

from everybit.checkpoint.live_bytes import tensor_tree
from everybit.core.digest import Algorithm, Digest
from everybit.core.errors import UsageError
from everybit.core.tree import tree_digest

_HEAD: Final = b"everybit.nest/1\0"
_MAX_DEPTH: Final = 200
_LAYOUTS: Final = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def digest(obj: Any) -> Digest:
    """Return the digest of a tensor, an array, or any nest of them and plain values.

    Equal bits give equal digests, on every device and in every process; `-0.0` and `0.0` differ,
    and so do a list and a tuple. The order of a mapping's keys does not count. A tensor's digest is
    the one in a manifest, whatever its strides or device; of a DTensor it is that of the local
    part. Tensors on an accelerator are copied in pieces of 16 MiB.

    Args:
        obj: Tensors, NumPy arrays, numbers, texts, bytes, None, lists, tuples, mappings, sets,
            dataclasses, modules, optimizers, and whatever else has a `state_dict`.

    Raises:
        UsageError: Something in it has no bytes (a meta tensor) or is of another kind; says where.

    >>> digest({"b": 1, "a": [1.0, None]}) == digest({"a": [1.0, None], "b": 1})
    True
    """
    plain = _plain_tensor(obj, "")
    if plain is not None:
        return plain
    return Digest(Algorithm.TREE, xxhash.xxh3_128_hexdigest(_HEAD + _node(obj, "", 0)))


def _node(value: Any, path: str, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise UsageError(
            f"is nested more than {_MAX_DEPTH} deep, or holds itself", where=_place(path)
        )
    scalar = _scalar(value)
    if scalar is not None:
        return scalar
    tree = _plain_tensor(value, path)
    if tree is not None:
        return b"t" + bytes.fromhex(tree.hex)
    if isinstance(value, torch.Tensor):
        return b"q" + _mapping(_parts(value), path, depth)
    if isinstance(value, Mapping):
        return b"d" + _mapping(value, path, depth)
    if isinstance(value, list | tuple):
        items = [_node(item, _join(path, key), depth + 1) for key, item in enumerate(value)]
        return (b"l" if isinstance(value, list) else b"u") + _folded(items)
    if isinstance(value, set | frozenset):
        return b"S" + _folded(sorted(_node(item, path, depth + 1) for item in value))
    state = getattr(value, "state_dict", None)
    if callable(state) and not isinstance(value, type):
        return _node(state(), path, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return b"o" + _text(type(value).__qualname__) + _mapping(fields, path, depth)
    raise UsageError(
        f"a {type(value).__name__} has no digest",
        where=_place(path),
        todo="give tensors, arrays, plain values, and lists, mappings and dataclasses of these",
    )


def _scalar(value: Any) -> bytes | None:
    if value is None:
        return b"N"
    if isinstance(value, enum.Enum):
        return b"e" + _text(type(value).__qualname__) + _text(value.name)
    if isinstance(value, np.generic):
        return None
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"i" + _text(str(int(value)))
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, complex):
        return b"c" + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, str):
        return b"s" + _text(value)
    if isinstance(value, bytes | bytearray):
        return b"b" + struct.pack("<Q", len(value)) + bytes(value)
    if isinstance(value, torch.dtype | torch.device):
        return b"D" + _text(str(value).removeprefix("torch."))
    return None


def _plain_tensor(value: Any, path: str) -> Digest | None:
    """Return the `tree` digest of an array, or a tensor whose bytes are all of it; else None."""
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value), path)
    if not isinstance(value, torch.Tensor):
        return None
    local = getattr(value, "_local_tensor", None)
    tensor = local if isinstance(local, torch.Tensor) else value
    if tensor.layout in _LAYOUTS or tensor.is_quantized or tensor.is_nested:
        return None
    try:
        return tensor_tree(tensor)
    except ValueError as error:
        raise UsageError(f"has no digest: {error}", where=_place(path)) from error


def _array(array: np.ndarray[Any, Any], path: str) -> Digest:
    kind = array.dtype
    if kind.hasobject or kind.names is not None:
        what = f"an array of {kind} has no digest: its elements are no plain values"
        raise UsageError(what, where=_place(path))
    native = kind.newbyteorder("<")
    # As torch and the manifest call it; NumPy's own name for what torch does not have.
    name = native.name if kind.kind in "biufc" else f"numpy:{native.str}"
    data = np.ascontiguousarray(array, dtype=native).reshape(-1)
    return tree_digest(name, array.shape, data.view(np.uint8).data if data.size else b"")


def _parts(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what a tensor of several parts is made of."""
    tensor = tensor.detach()
    head = {"shape": tuple(tensor.shape), "layout": str(tensor.layout).removeprefix("torch.")}
    if tensor.is_nested:
        return {**head, "shape": None, "tensors": list(tensor.unbind())}
    if tensor.layout in _LAYOUTS:
        parts = {name.strip("_"): getattr(tensor, name)() for name in _LAYOUTS[tensor.layout]}
        return {**head, **parts}
    dtype = str(tensor.dtype).removeprefix("torch.")
    scheme = tensor.qscheme()
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale: Any = {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    else:
        scale = {
            "scales": tensor.q_per_channel_scales(),
            "zero_points": tensor.q_per_channel_zero_points(),
            "axis": tensor.q_per_channel_axis(),
        }
    return {**head, "dtype": dtype, "integers": tensor.int_repr(), **scale}


def _mapping(value: Mapping[Any, Any], path: str, depth: int) -> bytes:
    pairs = []
    for key, item in value.items():
        name = _node(key, path, depth + 1)
        pairs.append(name + _node(item, _join(path, key), depth + 1))
    return _folded(sorted(pairs))


def _folded(items: list[bytes]) -> bytes:
    # Every item says how long it is, so that no two lists give the same bytes.
    hasher = xxhash.xxh3_128(struct.pack("<Q", len(items)))
    for item in items:
        hasher.update(item)
    return hasher.digest()


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(data)) + data


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _place(path: str) -> str:
    return path or "digest"
