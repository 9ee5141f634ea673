"""Within the calls of a checked step: every product is tested where it has been computed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from everybit.core.change import changes_between
from everybit.guard.spot.products import Convolution, Product, described, is_product
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from everybit.core.change import Change

    Test = Product | Convolution

#: How often a suspicious product is computed again.
NUM_REPEATS: Final = 2
_MAX_CHANGES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suspicion:
    """A product that its checksums speak against.

    Attributes:
        operation: Its name in torch.
        module: The innermost module whose call it was part of, where there was one.
        node: The name of the node of the graph in whose backward it was, "" in a forward.
        operands: Its inputs, to be looked for among the parameters.
        shape: Of the result.
        dtype: Of the result.
        device: Where it was computed.
        distance: In units of what is suspicious.
        repeats: How many of the repeats gave the same bits again; None where there were none.
        num_repeats: How often it was repeated.
        agreeing: Whether the repeats agree with each other.
        changes: What differs from the repeats, or in float64; a list of the first ones.
        elements: All elements that differ.
        inexplicable: Repeated alike, and no rounding explains it.
        healed: The repeats' result was handed on in its place.
    """

    operation: str
    module: torch.nn.Module | None
    node: str
    operands: tuple[torch.Tensor, ...]
    shape: tuple[int, ...]
    dtype: str
    device: str
    distance: float
    repeats: int | None = None
    num_repeats: int = 0
    agreeing: bool = True
    changes: tuple[Change, ...] = ()
    elements: tuple[int, ...] = ()
    inexplicable: bool = False
    healed: bool = False


class SpotMode(TorchDispatchMode):
    """Tests products; one instance serves one call or one backward pass.

    Args:
        told: Called with each suspicion that was confirmed.
        deferred: Called with a flag on an accelerator (0-d int64), and what to make of it.
        counted: Called with the name of each product and whether it was tested.
        failed: Called with an error of our own.
        heal: Hand on what the repeats agree on.

    Attributes:
        everybits_own: It computes what the program does, and may be left out when that is repeated.
    """

    everybits_own = True

    def __init__(
        self,
        *,
        told: Callable[[Suspicion], None],
        deferred: Callable[[torch.Tensor, Suspicion], None],
        counted: Callable[[Any, bool], int],
        failed: Callable[[Exception], None],
        heal: bool,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._told = told
        self._deferred = deferred
        self._counted = counted
        self._failed = failed
        self._heal = heal

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, then test."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not is_product(func):
            return result
        try:
            with torch.no_grad():
                return self._tested(func, args, kwargs, result)
        except Exception as error:
            self._failed(error)
            return result

    def _tested(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        test = None
        if isinstance(result, torch.Tensor) and not result.is_meta and result.numel():
            test = described(func, args, kwargs, self._counted(None, False))
        self._counted(func, test is not None)
        if test is None:
            return result
        distance = test.distance(result)
        if result.device.type != "cpu":
            flag = (~(distance.amax() < 1)).to(torch.int64)
            self._deferred(flag, _suspicion(func, test, result, distance=float("nan")))
            return result
        worst = distance.amax().item()
        if worst < 1:
            return result
        return self._confirmed(func, args, kwargs, result, test, worst)

    def _confirmed(
        self, func: Any, args: Any, kwargs: Any, result: torch.Tensor, test: Test, worst: float
    ) -> torch.Tensor:
        """Compute it again, exactly as it was: what is suspicious is no finding yet."""
        again = [func(*args, **kwargs) for _ in range(NUM_REPEATS)]
        first, *others = memory_words([result, *again])
        same = sum(word == first for word in others)
        if same == NUM_REPEATS:
            wrong = test.wrong(result)
            if wrong is None or not wrong.any():
                return result  # The threshold was wrong, or the inputs are.
            elements = tuple(wrong.reshape(-1).nonzero().reshape(-1).tolist())
            self._told(
                _suspicion(
                    func, test, result, distance=worst, repeats=same, elements=elements,
                    inexplicable=True,
                )
            )  # fmt: skip
            return result
        agreeing = len(set(others)) == 1
        elements, changes = _differences(again[0], result)
        heal = self._heal and agreeing
        self._told(
            _suspicion(
                func, test, result, distance=worst, repeats=same, agreeing=agreeing,
                elements=elements, changes=changes, healed=heal,
            )
        )  # fmt: skip
        return again[0] if heal else result


def _differences(
    right: torch.Tensor, found: torch.Tensor
) -> tuple[tuple[int, ...], tuple[Change, ...]]:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[found.element_size()]
    pair = [t.detach().contiguous().reshape(-1) for t in (right, found)]
    differ = (pair[0].view(whole) != pair[1].view(whole)).nonzero().reshape(-1)
    few = differ[:_MAX_CHANGES]
    old, new = (t[few].contiguous().view(torch.uint8).numpy().tobytes() for t in pair)
    name = str(found.dtype).removeprefix("torch.")
    places = few.tolist()
    changes = [
        replace(change, element=places[change.element])
        for change in changes_between(name, old, new)
    ]
    return tuple(differ.tolist()), tuple(changes)


def _suspicion(func: Any, test: Test, result: torch.Tensor, **facts: Any) -> Suspicion:
    node = torch._C._current_autograd_node()
    operands = (test.a, test.b) if isinstance(test, Product) else (test.inputs, test.weight)
    return Suspicion(
        operation=str(func).removesuffix(".default"),
        module=None if node is not None else _calling(),
        node="" if node is None else node.name(),
        operands=operands,
        shape=tuple(result.shape),
        dtype=str(result.dtype).removeprefix("torch."),
        device=str(result.device),
        num_repeats=0 if facts.get("repeats") is None else NUM_REPEATS,
        **facts,
    )


def _calling() -> torch.nn.Module | None:
    """Return the innermost module whose call is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_call_impl":
            found = frame.f_locals.get("self")
            if isinstance(found, torch.nn.Module):
                return found
        frame = frame.f_back
    return None
