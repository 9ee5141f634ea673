"""Torch's rebuild functions: which arguments make a tensor for certain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from everybit.files.geometry import STORED_ITEMSIZE, extent, row_major, shape_problem
from everybit.files.pickles.nodes import DictNode, TupleNode
from everybit.files.weights_only.allowed import dtype_of
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.tensor_names import TENSOR_NAMES
from everybit.files.weights_only.values import (
    Known,
    Layout,
    Mapping,
    Size,
    StorageValue,
    TensorValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.weights_only.values import Value

_MAX_INTEGER: Final = 1 << 62
_COMPLEX: Final = frozenset({"complex32", "complex64", "complex128"})
_QUANTIZED: Final = frozenset({"qint8", "quint8", "qint32"})
#: Kinds of layout that a Parameter can be made of.
_PARAMETRIC: Final = frozenset({"strided", "quantized", "sparse_coo", "sparse_csr", "sparse_csc"})
_SCALES: Final = ("float32", "float64")
_ZERO_POINTS: Final = (*_SCALES, "int32", "int64")
#: Elements of the parts of a sparse tensor: an expanded one may promise any number.
_MAX_ELEMENTS: Final = 1 << 40
_PER_TENSOR: Final = "torch.per_tensor_affine"
_PER_CHANNEL: Final = frozenset(
    {"torch.per_channel_affine", "torch.per_channel_affine_float_qparams"}
)


def can_require_grad(dtype: str) -> bool:
    """Return whether torch lets tensors of a dtype require gradients."""
    return dtype.startswith(("float", "bfloat", "complex"))


# -- arguments -------------------------------------------------------------------------------------


def _count(args: list[Value], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        raise UnprovedError("gets a wrong number of arguments", proved=True)


def _storage(value: Value) -> StorageValue:
    if type(value) is not StorageValue:
        raise UnprovedError("gets no storage")
    return value


def _tensor(value: Value, what: str) -> TensorValue:
    if type(value) is not TensorValue:
        raise UnprovedError(f"gets no tensor as {what}")
    return value


def _flag(value: Value, dtype: str) -> None:
    if type(value) is not bool:
        raise UnprovedError("gets no boolean for requires_grad")
    if value and not can_require_grad(dtype):
        raise UnprovedError(f"asks for gradients of {dtype} elements", proved=True)


def _hooks(value: Value) -> None:
    plain = value is None or type(value) is DictNode
    if not plain and not (type(value) is Mapping and value.kind == "OrderedDict"):
        raise UnprovedError("gets hooks that are no dictionary")


def _integers(value: Value, what: str) -> tuple[int, ...]:
    items = value.sizes if type(value) is Size else None
    if type(value) is TupleNode:
        items = tuple(value.items)
    if items is None or not all(type(i) is int and 0 <= i < _MAX_INTEGER for i in items):
        raise UnprovedError(f"gets a {what} that is no tuple of sizes")
    return items


def _metadata(args: list[Value], at: int, dtype: str) -> None:
    """Check what is said of conjugation and negation."""
    if len(args) <= at or args[at] is None:
        return
    if type(args[at]) is not DictNode:
        raise UnprovedError("gets facts about the tensor that are no dictionary")
    for key, value in args[at].pairs:
        if type(key) is not str or key not in ("conj", "neg") or type(value) is not bool:
            raise UnprovedError("gets odd facts about the tensor")
        if key == "conj" and value and dtype not in _COMPLEX:
            raise UnprovedError(f"says that {dtype} elements are conjugated", proved=True)


def _geometry(args: list[Value], num_bytes: int, itemsize: int) -> tuple[tuple[int, ...], bool]:
    """Return the shape, and whether it is contiguous, of `offset, size, stride`."""
    offset, size, stride = args[0], _integers(args[1], "size"), _integers(args[2], "stride")
    if type(offset) is not int or not 0 <= offset < _MAX_INTEGER:
        raise UnprovedError("gets an offset that is none")
    if len(size) != len(stride):
        raise UnprovedError("gets a size and a stride of different lengths", proved=True)
    if shape_problem(size):
        raise UnprovedError(f"gets a size of {shape_problem(size)}")
    reach = 1 + sum((max(1, s) - 1) * step for s, step in zip(size, stride, strict=True))
    if (offset + reach) * itemsize >= _MAX_INTEGER:
        raise UnprovedError("gets a stride or offset that overflows")
    if 0 not in size and (offset + extent(size, stride)) * itemsize > num_bytes:
        # A legacy file's storages can grow, which torch then does.
        raise UnprovedError("reaches past the end of its storage")
    return size, stride == row_major(size)


def _strided(storage: StorageValue, args: list[Value], dtype: str) -> TensorValue:
    if dtype not in STORED_ITEMSIZE or dtype.startswith(("qint", "quint")):
        raise UnprovedError(f"makes a plain tensor of {dtype} elements")
    size, contiguous = _geometry(args, storage.num_bytes, STORED_ITEMSIZE[dtype])
    return TensorValue(dtype, size, contiguous=contiguous)


# -- the functions ---------------------------------------------------------------------------------


def _rebuild_tensor(args: list[Value]) -> TensorValue:
    _count(args, 4, 4)
    storage = _storage(args[0])
    return _strided(storage, args[1:4], storage.dtype)


def _rebuild_v2(args: list[Value]) -> TensorValue:
    _count(args, 6, 7)
    storage = _storage(args[0])
    made = _strided(storage, args[1:4], storage.dtype)
    _flag(args[4], made.dtype)
    _hooks(args[5])
    _metadata(args, 6, made.dtype)
    return made


def _rebuild_v3(args: list[Value]) -> TensorValue:
    _count(args, 7, 8)
    dtype = dtype_of(args[6].name) if type(args[6]) is Known else None
    if dtype is None:
        raise UnprovedError("gets no dtype")
    made = _strided(_storage(args[0]), args[1:4], dtype)
    _flag(args[4], dtype)
    if args[4]:
        # Torch makes the tensor as one that requires gradients and then puts its storage in.
        what = "asks for gradients of a tensor that is given its storage"
        raise UnprovedError(what, proved=True, usual=True)
    _hooks(args[5])
    _metadata(args, 7, dtype)
    return made


def _rebuild_parameter(args: list[Value]) -> TensorValue:
    _count(args, 3, 3)
    data = _tensor(args[0], "data")
    if data.layout not in _PARAMETRIC:
        raise UnprovedError(f"makes a Parameter of a tensor of layout {data.layout}")
    _flag(args[1], data.dtype)
    _hooks(args[2])
    return TensorValue(
        data.dtype, data.shape, data.layout, data.device, is_parameter=True,
        contiguous=data.contiguous,
    )  # fmt: skip


def _rebuild_parameter_with_state(args: list[Value]) -> TensorValue:
    _count(args, 4, 4)
    made = _rebuild_parameter(args[:3])
    _state(args[3])
    return made


def _state(state: Value) -> None:
    """Check attributes that are set on a tensor one by one."""
    parts = state.items if type(state) is TupleNode else [state]
    if type(state) is TupleNode and len(parts) != 2:
        raise UnprovedError("gets a state that is no pair", proved=True)
    for part in parts:
        if part is None:
            continue
        if type(part) is not DictNode:
            raise UnprovedError("gets a state that is no dictionary")
        for key, _ in part.pairs:
            own = type(key) is str and (key in TENSOR_NAMES or key.startswith("__"))
            if own or type(key) is not str or not key.isidentifier():
                raise UnprovedError("sets attributes that a tensor has by itself, or odd ones")


def rebuild_from_type(args: list[Value]) -> TensorValue:
    """Return what `_rebuild_from_type_v2` gives; raises `UnprovedError`."""
    _count(args, 4, 4)
    function, kind, inner, state = args
    if type(function) is not Known or function.name not in REBUILDS:
        raise UnprovedError("rebuilds a tensor by what is no rebuild function")
    if type(inner) is not TupleNode:
        raise UnprovedError("rebuilds a tensor with what is no tuple")
    made = REBUILDS[function.name](inner.items)
    wanted = "torch.nn.parameter.Parameter" if made.is_parameter else "torch.Tensor"
    if type(kind) is not Known or kind.name != wanted:
        raise UnprovedError("rebuilds a tensor as another class")
    _state(state)
    return made


def _rebuild_qtensor(args: list[Value]) -> TensorValue:
    _count(args, 7, 7)
    storage = _storage(args[0])
    if storage.dtype not in _QUANTIZED:
        raise UnprovedError(f"makes a quantised tensor of {storage.dtype} elements")
    size, contiguous = _geometry(args[1:4], storage.num_bytes, STORED_ITEMSIZE[storage.dtype])
    # Torch first makes a contiguous tensor of that size.
    if extent(size, row_major(size)) * STORED_ITEMSIZE[storage.dtype] > storage.num_bytes:
        raise UnprovedError("makes a quantised tensor larger than its storage")
    _quantizer(args[4], size)
    _flag(args[5], storage.dtype)
    _hooks(args[6])
    return TensorValue(storage.dtype, size, "quantized", contiguous=contiguous)


def _quantizer(value: Value, size: tuple[int, ...]) -> None:
    parts = value.items if type(value) is TupleNode else []
    scheme = parts[0].name if parts and type(parts[0]) is Known else ""
    if scheme == _PER_TENSOR and len(parts) == 3:
        scale, zero = parts[1], parts[2]
        if type(scale) is not float or type(zero) is not int or abs(zero) >= 1 << 31:
            raise UnprovedError("gets an odd scale or zero point")
        return
    if scheme not in _PER_CHANNEL or len(parts) != 4:
        raise UnprovedError("gets a quantiser that is not understood")
    scales, zeros, axis = parts[1:]
    if type(axis) is not int or not 0 <= axis < len(size):
        raise UnprovedError("quantises along an axis that is not there", proved=True)
    for part in (scales, zeros):
        held = _tensor(part, "scales or zero points")
        if held.shape != (size[axis],) or held.layout != "strided" or held.device != "cpu":
            raise UnprovedError("gets scales or zero points of another shape")
        kinds = _SCALES if part is scales else _ZERO_POINTS
        if not held.contiguous or held.dtype not in kinds:
            raise UnprovedError("gets odd scales or zero points")


def _rebuild_sparse(args: list[Value]) -> TensorValue:
    _count(args, 2, 2)
    layout = args[0].name if type(args[0]) is Layout else ""
    parts = args[1].items if type(args[1]) is TupleNode else []
    if layout == "sparse_coo" and len(parts) in (3, 4):
        if len(parts) == 4 and parts[3] is not None and type(parts[3]) is not bool:
            raise UnprovedError("gets no boolean for is_coalesced")
        return _coo(_plain(parts[0]), _plain(parts[1]), _integers(parts[2], "size"))
    if layout in ("sparse_csr", "sparse_csc") and len(parts) == 4:
        index, other, values = (_plain(part) for part in parts[:3])
        return _compressed(layout, index, other, values, _integers(parts[3], "size"))
    raise UnprovedError("makes a sparse tensor of a layout that is not followed")


def _plain(value: Value) -> TensorValue:
    tensor = _tensor(value, "indices or values")
    large = math.prod(tensor.shape) > _MAX_ELEMENTS
    if tensor.layout != "strided" or tensor.device != "cpu" or large:
        raise UnprovedError("gets indices or values that are no plain tensors")
    return tensor


def _coo(indices: TensorValue, values: TensorValue, size: tuple[int, ...]) -> TensorValue:
    if indices.dtype != "int64" or len(indices.shape) != 2 or not values.shape:
        raise UnprovedError("gets odd sparse indices")
    num_sparse, count = indices.shape
    if values.shape[0] != count or len(size) != num_sparse + len(values.shape) - 1:
        raise UnprovedError("gets sparse values that do not fit the indices")
    if values.shape[1:] != size[num_sparse:] or shape_problem(size):
        raise UnprovedError("gets sparse values that do not fit the size")
    return TensorValue(values.dtype, size, "sparse_coo")


def _compressed(
    layout: str,
    index: TensorValue,
    other: TensorValue,
    values: TensorValue,
    size: tuple[int, ...],
) -> TensorValue:
    shapes = (len(index.shape), len(other.shape), len(values.shape), len(size))
    if shapes != (1, 1, 1, 2) or shape_problem(size):
        raise UnprovedError("makes a compressed sparse tensor of more than two dimensions")
    rows = size[0] if layout == "sparse_csr" else size[1]
    if index.shape[0] != rows + 1 or other.shape != values.shape:
        raise UnprovedError("gets sparse values that do not fit the indices")
    if index.dtype != other.dtype or index.dtype not in ("int64", "int32"):
        raise UnprovedError("gets odd sparse indices")
    return TensorValue(values.dtype, size, layout)


def _rebuild_meta(args: list[Value]) -> TensorValue:
    _count(args, 4, 4)
    dtype = dtype_of(args[0].name) if type(args[0]) is Known else None
    if dtype is None or dtype.startswith(("qint", "quint")) or dtype not in STORED_ITEMSIZE:
        raise UnprovedError("gets no dtype of plain elements")
    size, contiguous = _geometry([0, *args[1:3]], _MAX_INTEGER, STORED_ITEMSIZE[dtype])
    _flag(args[3], dtype)
    return TensorValue(dtype, size, device="meta", contiguous=contiguous)


REBUILDS: Final[dict[str, Callable[[list[Value]], TensorValue]]] = {
    f"torch._utils.{name}": function
    for name, function in {
        "_rebuild_tensor": _rebuild_tensor,
        "_rebuild_tensor_v2": _rebuild_v2,
        "_rebuild_tensor_v3": _rebuild_v3,
        "_rebuild_parameter": _rebuild_parameter,
        "_rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "_rebuild_qtensor": _rebuild_qtensor,
        "_rebuild_sparse_tensor": _rebuild_sparse,
        "_rebuild_meta_tensor_no_storage": _rebuild_meta,
    }.items()
}
