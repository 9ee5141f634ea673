"""Rebuild calls of torch and NumPy as tensors, and what stands beside their elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import Call, DictNode, Global, Node
from everybit.files.pickles.torch_values import (
    TensorSpec,
    describe_array,
    describe_buffer_array,
    describe_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUANTIZED: Final = "torch._utils._rebuild_qtensor"
TENSORS: Final = frozenset(
    {
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        _QUANTIZED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A tensor as its pickle describes it.

    Attributes:
        spec: Its elements.
        requires_grad: It asks for gradients.
        quantizer: How its integers stand for numbers; None for plain tensors.
        hooks: Backward hooks; None where there are none.
    """

    spec: TensorSpec
    requires_grad: bool
    quantizer: Node
    hooks: Node


def spec_of_call(name: str, args: list[Node]) -> Described:
    """Describe the tensor that a rebuild function makes.

    Raises:
        OddError: The arguments are not what torch writes.
    """
    asks = args[5:6] if name == _QUANTIZED else args[4:5]
    quantizer, hooks = extras_of(name, args)
    return Described(
        spec=describe_tensor(args, name),
        requires_grad=bool(asks) and asks[0] is True,
        quantizer=quantizer,
        hooks=hooks,
    )


def extras_of(name: str, args: Sequence[Node]) -> tuple[Node, Node]:
    """Return a tensor's quantizer and its backward hooks, None for what it has not."""
    quantized = name == _QUANTIZED
    quantizer = args[4] if quantized and len(args) > 4 else None
    place = 6 if quantized else 5
    hooks = args[place] if len(args) > place else None
    if isinstance(hooks, Call) and not (hooks.pairs or hooks.items or hooks.arguments):
        hooks = None
    if isinstance(hooks, DictNode) and not hooks.pairs:
        hooks = None
    return quantizer, hooks


def is_numeric_array(call: Call) -> bool:
    """Return whether a call makes a NumPy array of the plain class."""
    if call.name.endswith(".multiarray._reconstruct"):
        kind = call.arguments[0] if call.arguments else None
        return isinstance(kind, Global) and kind.qualified == "numpy.ndarray"
    return call.name.endswith(".numeric._frombuffer") and call.state is None


def spec_of_array(call: Call) -> TensorSpec:
    """Describe a NumPy array.

    Raises:
        OddError: It is none of plain little-endian numbers.
    """
    if call.name.endswith("._reconstruct"):
        return describe_array(call)
    return describe_buffer_array(call)
