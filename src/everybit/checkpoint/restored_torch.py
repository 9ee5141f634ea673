"""Objects of torch beside plain tensors: sizes, devices, generators, sparse and nested tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.restored_numpy import OddError

if TYPE_CHECKING:
    from collections.abc import Callable

_CONSTANTS: Final = (torch.dtype, torch.layout, torch.qscheme, torch.memory_format)
_COMPRESSED: Final = frozenset(
    {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
)


def named_constant(name: str) -> Any:
    """Return the dtype, layout or other constant of torch that a name stands for; else None."""
    module, _, short = name.partition(":")
    if module != "torch" or not short.isidentifier():
        return None
    if short == "Size":
        return torch.Size
    found = getattr(torch, short, None)
    return found if isinstance(found, _CONSTANTS) else None


def quantized_like(quantizer: Any) -> Callable[[tuple[int, ...], torch.dtype], torch.Tensor]:
    """Return what makes an empty quantised tensor, from the parameters that torch saves.

    Raises:
        OddError: They are none.
    """
    parts = quantizer if isinstance(quantizer, tuple) else ()
    if len(parts) == 3 and parts[0] == torch.per_tensor_affine:
        _, scale, zero_point = parts
        if not isinstance(scale, float | int) or type(zero_point) is not int:
            raise OddError("no scale or zero point")
        return lambda shape, dtype: torch._empty_affine_quantized(
            shape, scale=scale, zero_point=zero_point, dtype=dtype
        )
    if len(parts) == 4 and parts[0] in (
        torch.per_channel_affine,
        torch.per_channel_affine_float_qparams,
    ):
        _, scales, zero_points, axis = parts
        kinds = (torch.double, torch.long)
        if parts[0] == torch.per_channel_affine_float_qparams:
            kinds = (torch.float, torch.float)
        if isinstance(scales, list) and isinstance(zero_points, list):
            scales = torch.tensor(scales, dtype=kinds[0])
            zero_points = torch.tensor(zero_points, dtype=kinds[1])
        if not isinstance(scales, torch.Tensor) or not isinstance(zero_points, torch.Tensor):
            raise OddError("no scales or zero points")
        return lambda shape, dtype: _per_channel(shape, dtype, scales, zero_points, axis)
    raise OddError("a quantiser that is not known")


def _per_channel(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    axis: Any,
) -> torch.Tensor:
    # torch does not test these itself.
    if type(axis) is not int or not 0 <= axis < len(shape):
        raise OddError("an axis that is not there")
    if scales.numel() != shape[axis] or zero_points.numel() != shape[axis]:
        raise OddError("scales or zero points of another length")
    return torch._empty_per_channel_affine_quantized(
        shape, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype
    )


def _size(args: tuple[Any, ...], state: Any) -> Any:
    sizes = args[0] if len(args) == 1 else None
    if state is not None or not isinstance(sizes, list | tuple):
        raise OddError("no sizes")
    if not all(type(size) is int for size in sizes):
        raise OddError("a size that is no integer")
    return torch.Size(sizes)


def _device(args: tuple[Any, ...], state: Any) -> Any:
    if state is not None or not args or not isinstance(args[0], str):
        raise OddError("no name of a device")
    if len(args) > 1 and type(args[1]) is not int:
        raise OddError("no number of a device")
    return torch.device(*args[:2])


def _layout(args: tuple[Any, ...], state: Any) -> Any:
    name = args[0] if len(args) == 1 and state is None else None
    found = named_constant(str(name).replace(".", ":", 1))
    if not isinstance(found, torch.layout):
        raise OddError("no name of a layout")
    return found


def _generator(args: tuple[Any, ...], state: Any) -> Any:
    if len(args) != 1 or args[0] != torch.device("cpu"):
        raise OddError("a generator of another device")
    made = torch.Generator()
    if state is None:
        return made
    if not isinstance(state, tuple) or len(state) != 3 or type(state[0]) is not int:
        raise OddError("no state of a generator")
    if not isinstance(state[2], torch.Tensor) or state[1] is not None:
        raise OddError("no state of a generator")
    made.manual_seed(state[0])
    made.set_state(state[2])
    return made


def _parameter(args: tuple[Any, ...], _state: Any) -> Any:
    if len(args) < 2 or not isinstance(args[0], torch.Tensor) or not isinstance(args[1], bool):
        raise OddError("no parameter")
    return torch.nn.Parameter(args[0], args[1])


def _parameter_with_state(args: tuple[Any, ...], state: Any) -> Any:
    made = _parameter(args, state)
    held = args[3] if len(args) > 3 else None
    if held is not None and not isinstance(held, dict):
        raise OddError("attributes that are no table")
    made.__dict__.update(held or {})
    return made


def _sparse(args: tuple[Any, ...], state: Any) -> Any:
    if state is not None or len(args) != 2 or not isinstance(args[1], tuple):
        raise OddError("no sparse tensor")
    layout, data = args
    if layout == torch.sparse_coo and len(data) in (3, 4):
        indices, values, size = data[:3]
        coalesced = data[3] if len(data) > 3 else None
        if coalesced not in (None, True, False):
            raise OddError("no sparse tensor")
        return torch.sparse_coo_tensor(
            indices, values, _sized(size), check_invariants=True, is_coalesced=coalesced
        )
    if layout in _COMPRESSED and len(data) == 4:
        outer, inner, values, size = data
        return torch.sparse_compressed_tensor(
            outer, inner, values, _sized(size), layout=layout, check_invariants=True
        )
    raise OddError("a layout that is not known")


def _sized(size: Any) -> torch.Size:
    if isinstance(size, torch.Size):
        return size
    found = _size((size,), None)
    assert isinstance(found, torch.Size)
    return found


def _nested(args: tuple[Any, ...], state: Any) -> Any:
    """Return a nested tensor; its parts must lie in its buffer, which torch does not test."""
    if state is not None or len(args) != 4:
        raise OddError("no nested tensor")
    buffer, sizes, strides, offsets = args
    if not all(isinstance(arg, torch.Tensor) for arg in args) or buffer.dim() != 1:
        raise OddError("no nested tensor")
    if any(arg.dtype != torch.int64 for arg in args[1:]) or sizes.shape != strides.shape:
        raise OddError("no sizes of a nested tensor")
    if offsets.shape != sizes.shape[:1] or sizes.dim() != 2:
        raise OddError("no offsets of a nested tensor")
    rows = zip(sizes.tolist(), strides.tolist(), offsets.tolist(), strict=True)
    for size, stride, offset in rows:
        if min([*size, *stride, offset]) < 0:
            raise OddError("a negative size in a nested tensor")
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if 0 not in size and last >= buffer.numel():
            raise OddError("a part of a nested tensor that lies outside it")
    return torch._nested_view_from_buffer(buffer, sizes, strides, offsets)


def _meta(args: tuple[Any, ...], state: Any) -> Any:
    if state is not None or len(args) != 4 or not isinstance(args[0], torch.dtype):
        raise OddError("no tensor without bytes")
    dtype, size, stride, asks = args
    made = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return made.requires_grad_(asks is True)


def _from_numpy(args: tuple[Any, ...], state: Any) -> Any:
    import numpy as np

    if state is not None or len(args) != 4 or not isinstance(args[0], np.ndarray):
        raise OddError("no tensor of an array")
    return torch.from_numpy(args[0]).to(args[1]).requires_grad_(args[3] is True)


def _from_cpu(args: tuple[Any, ...], state: Any) -> Any:
    if state is not None or len(args) != 4 or not isinstance(args[0], torch.Tensor):
        raise OddError("no tensor of another device")
    return args[0].to(args[1]).requires_grad_(args[3] is True)


MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "torch:Size": _size,
    "torch:device": _device,
    "torch._C:Generator": _generator,
    "torch.serialization:_get_layout": _layout,
    "torch._utils:_rebuild_parameter": _parameter,
    "torch._utils:_rebuild_parameter_with_state": _parameter_with_state,
    "torch._utils:_rebuild_sparse_tensor": _sparse,
    "torch._utils:_rebuild_nested_tensor": _nested,
    "torch._utils:_rebuild_meta_tensor_no_storage": _meta,
    "torch._utils:_rebuild_device_tensor_from_numpy": _from_numpy,
    "torch._utils:_rebuild_device_tensor_from_cpu_tensor": _from_cpu,
}
