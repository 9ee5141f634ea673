"""The tensors of a live nest under the names that a file of it gives them, with their digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.checkpoint.digests import digest
from everybit.checkpoint.live_bytes import tensor_tree
from everybit.core.errors import UsageError
from everybit.core.tree import tree_digest
from everybit.probe.memory import dtype_name, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.digest import Digest

_MAX_DEPTH: Final = 200
_SPARSE: Final = {
    torch.sparse_coo: (("indices", "_indices"), ("values", "_values")),
    torch.sparse_csr: (("crow_indices",) * 2, ("col_indices",) * 2, ("values",) * 2),
    torch.sparse_bsr: (("crow_indices",) * 2, ("col_indices",) * 2, ("values",) * 2),
    torch.sparse_csc: (("ccol_indices",) * 2, ("row_indices",) * 2, ("values",) * 2),
    torch.sparse_bsc: (("ccol_indices",) * 2, ("row_indices",) * 2, ("values",) * 2),
}

Plain = None | bool | int | float | str


def walk(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield `(dotted key, leaf)` of nested mappings, lists and tuples, as a file names them.

    Raises:
        UsageError: It is nested too deep, or holds itself.
    """
    if depth > _MAX_DEPTH:
        raise UsageError(f"is nested more than {_MAX_DEPTH} deep, or holds itself", where=path)
    if isinstance(value, Mapping):
        entries: Any = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    else:
        yield path, value
        return
    for key, item in entries:
        yield from walk(item, f"{path}.{_key(key)}" if path else _key(key), depth + 1)


def _key(key: object) -> str:
    if isinstance(key, tuple):
        return "(" + ",".join(map(_key, key)) + ")"
    return str(key)


def live_digests(nest: Any) -> dict[str, tuple[Digest, torch.Tensor | None]]:
    """Return `{name in the file: (digest, the tensor)}`; None for a part of a tensor or an array.

    Equal memory is read once. A tensor without bytes (meta) has no entry.
    """
    known: dict[object, Digest] = {}
    found: dict[str, tuple[Digest, torch.Tensor | None]] = {}
    for name, value in walk(nest):
        name = name or "tensor"
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            found[name] = (digest(value), None)
        if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
            kind = type(value).__name__
            raise UsageError(
                f"is a whole {kind}: its tensors could not be proved, and `torch.load` refuses it",
                where=name,
                todo="save its `state_dict()`",
            )
        if not isinstance(value, torch.Tensor):
            continue
        for part, tensor in _parts(name, value.detach()):
            if isinstance(tensor, torch.Tensor):
                if why_unreadable(tensor):
                    continue
                key = _memory(tensor)
                if key not in known:
                    known[key] = tensor_tree(tensor)
                found[part] = (known[key], tensor)
            else:
                found[part] = (tensor, None)
    return found


def _parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor | Digest]]:
    if tensor.layout in _SPARSE:
        for part, method in _SPARSE[tensor.layout]:
            yield f"{name}.{part}", getattr(tensor, method)().detach()
    elif tensor.is_quantized:
        integers = tensor.int_repr()
        if integers.element_size() * integers.numel() == tensor.numel() * tensor.element_size():
            data = integers.contiguous().view(torch.uint8).cpu().numpy().tobytes()
            yield name, tree_digest(dtype_name(tensor.dtype), tuple(tensor.shape), data)
    else:
        yield name, tensor


def _memory(tensor: torch.Tensor) -> object:
    place = (tensor.data_ptr(), tensor.device, tensor.dtype, tuple(tensor.shape), tensor.stride())
    return (*place, tensor.is_conj(), tensor.is_neg()) if tensor.numel() else id(tensor)


def live_values(nest: Any) -> dict[str, Plain]:
    """Return the plain values of a nest by dotted key."""
    return {
        name: value
        for name, value in walk(nest)
        if value is None or type(value) in (bool, int, float, str)
    }
