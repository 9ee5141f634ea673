"""A file's tensors in memory, converted for the model: read once, digested as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.checkpoint.live_bytes import tensor_tree
from everybit.core.errors import PathError, UsageError
from everybit.core.tree import TreeHasher
from everybit.files.model import model_tensor_chunks
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    from everybit.core.digest import Digest
    from everybit.files.model import Model, ModelTensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Staged:
    """One tensor of a file, ready to be copied into the model.

    Attributes:
        value: On the CPU, in the dtype of the model's tensor.
        tree: Digest of the file's bytes.
        expected: Digest that the model's tensor has once it has arrived.
        conversion: `float32 to bfloat16`, or "".
    """

    value: torch.Tensor
    tree: Digest
    expected: Digest
    conversion: str = ""


def stage(model: Model, tensor: ModelTensor, dtype: torch.dtype) -> Staged:
    """Read a tensor and convert it.

    Args:
        model: The file.
        tensor: A tensor of it.
        dtype: Of the model's tensor.

    Raises:
        PathError: The file cannot be read.
        UsageError: Its values do not survive in that dtype: another kind of number, or overflow.
    """
    stored, tree = read_stored(model, tensor)
    if stored.dtype == dtype:
        return Staged(value=stored, tree=tree, expected=tree)
    value = _convert(stored, dtype, tensor.name)
    return Staged(
        value=value,
        tree=tree,
        expected=tensor_tree(value),
        conversion=f"{dtype_name(stored.dtype)} to {dtype_name(dtype)}",
    )


def read_stored(model: Model, tensor: ModelTensor) -> tuple[torch.Tensor, Digest]:
    """Return a tensor of a file on the CPU, in its own dtype, and its digest.

    Raises:
        PathError: The file cannot be read, or ends early.
        UsageError: torch has no such dtype.
    """
    dtype = getattr(torch, tensor.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"torch has no dtype {tensor.dtype}", where=tensor.name)
    if tensor.dtype.startswith(("qint", "quint")):
        raise UsageError(
            "is quantised: its scales stand beside it", where=tensor.name, todo="use torch.load"
        )
    raw = torch.empty(tensor.num_bytes, dtype=torch.uint8)
    hasher = TreeHasher()
    filled = 0
    array: Any = raw.numpy()
    into = memoryview(array)
    for chunk in model_tensor_chunks(model, tensor):
        hasher.update(chunk)
        into[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    if filled != tensor.num_bytes:
        raise PathError(
            f"tensor {tensor.name} ends after {filled} of {tensor.num_bytes} bytes",
            where=str(model.path),
            todo="something shortened the file while it was read",
        )
    return raw.view(dtype).reshape(tensor.shape), hasher.digest(tensor.dtype, tensor.shape)


def _convert(stored: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
    both_real = stored.dtype.is_floating_point and dtype.is_floating_point
    both_complex = stored.dtype.is_complex and dtype.is_complex
    value = stored.to(dtype)
    what = f"{dtype_name(stored.dtype)} in the file and {dtype_name(dtype)} in the model"
    if both_real or both_complex:
        lost = torch.isfinite(stored) & ~torch.isfinite(value.to(stored.dtype))
        if bool(lost.any()):
            raise UsageError(
                f"is {what}, where {int(lost.sum())} of its values overflow to infinity",
                where=name,
                todo="give the model a dtype that holds them (bfloat16, float32)",
            )
        return value
    if stored.dtype.is_floating_point or stored.dtype.is_complex or dtype.is_floating_point:
        raise UsageError(f"is {what}: another kind of number", where=name)
    if not torch.equal(value.to(stored.dtype), stored):
        raise UsageError(f"is {what}, which does not hold its values", where=name)
    return value
