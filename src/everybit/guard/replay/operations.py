"""The operations of a repeated call, by the part of the model that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from everybit.guard.replay.values import word_of

if TYPE_CHECKING:
    from everybit.guard.readout import Word
    from everybit.guard.replay.trace import Trace

#: Operations that add up in the order in which threads come, on the CPU with several of them.
_ON_CPU: Final = frozenset(
    {
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "_unsafe_index_put",
        "put_",
        "put",
        "embedding_dense_backward",
        "_embedding_bag_dense_backward",
        "scatter_add_",
        "scatter_add",
        "scatter_reduce",
        "index_add_",
        "index_add",
    }
)
#: And on accelerators, where many kernels use atomic additions.
_ELSEWHERE: Final = _ON_CPU | {
    "adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool2d_backward",
    "adaptive_max_pool2d_backward",
    "avg_pool3d_backward",
    "bincount",
    "convolution_backward",
    "cumsum",
    "fractional_max_pool2d_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "histc",
    "index_reduce_",
    "kthvalue",
    "max_pool3d_with_indices_backward",
    "median",
    "nll_loss2d_forward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "replication_pad2d_backward",
    "scatter_reduce_",
    "upsample_bicubic2d_backward",
    "upsample_bilinear2d_backward",
    "upsample_linear1d_backward",
    "upsample_trilinear3d_backward",
    "_ctc_loss_backward",
    "_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_backward",
}


#: Operations whose results hold whatever lay in the memory before.
_UNFILLED: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
)


@dataclass(slots=True, eq=False)
class Operation:
    """One operation that was carried out.

    Attributes:
        name: Its name without namespace and overload.
        module: The part that it belongs to.
        backward: Whether it is of the backward pass.
        device: The device of its result.
        inputs: Digest words of the tensors it was given.
        words: Digest words of its results.
    """

    name: str
    module: str
    backward: bool
    device: str
    inputs: list[Word | None]
    words: list[Word | None]

    @property
    def unordered(self) -> bool:
        """Whether it adds up in no fixed order where it runs."""
        if self.device == "cpu":
            return self.name in _ON_CPU and torch.get_num_threads() > 1
        return self.name in _ELSEWHERE and not torch.are_deterministic_algorithms_enabled()


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation of a repeat.

    Args:
        digests: Take digests of what each gives, too.

    Attributes:
        trace: Tells which part is being called.
        found: The operations in order.
    """

    def __init__(self, *, digests: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace: Trace | None = None
        self.found: list[Operation] = []
        self._digests = digests

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = self._words([*args, *(kwargs or {}).values()])
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in _flat(result) if isinstance(each, torch.Tensor)]
        name = func.name().split("::")[-1].split(".")[0]
        node = torch._C._current_autograd_node()
        module = ""
        if self.trace is not None:
            module = self.trace.current if node is None else self.trace.owner(node._sequence_nr())
        self.found.append(
            Operation(
                name=name,
                module=module,
                backward=node is not None,
                device=tensors[0].device.type if tensors else "",
                inputs=given,
                words=[] if name in _UNFILLED else self._words(tensors),
            )
        )
        return result

    def _words(self, values: list[Any]) -> list[Word | None]:
        if not self._digests:
            return []
        return [word_of(each) for each in _flat(values) if isinstance(each, torch.Tensor)]


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [item for each in result for item in _flat(each)]
    return [result]
