"""Make a recorded call once more, and leave no trace of it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge

from everybit.guard.replay.graph import CallGraph, DifferentPathError, follow, hook_nodes
from everybit.guard.replay.settings import autocast_is_open
from everybit.guard.replay.trace import Event, Trace
from everybit.guard.replay.values import cut_off, tensors_in, word_of
from everybit.guard.root_call import repetition
from everybit.probe.memory import version
from everybit.probe.state import RngState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from everybit.guard.readout import Word
    from everybit.guard.replay.operations import Operations
    from everybit.guard.replay.record import CallRecord, Pass

#: Nodes whose backward pass calls another one, which adds to gradients by itself.
_REENTRANT: Final = ("CheckpointFunctionBackward",)


class CannotRepeatError(Exception):
    """A recorded call cannot be made again; the reason is for the coverage."""


@dataclass(slots=True, eq=False)
class Repeated:
    """What a repeated call gave.

    Attributes:
        output_words: Digest words of the output tensors.
        outputs: Themselves, detached.
        events: What the parts took and gave.
        words: Of each backward pass: digest words of the gradients of each node's inputs.
        kept: Gradients that were asked for, by `(pass, node's place, edge)`.
        no_backward: Why gradients were not compared, "" where they were.
    """

    output_words: list[Word | None] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    words: dict[int, dict[int, list[Word | None]]] = field(default_factory=dict)
    kept: dict[tuple[int, int, int], torch.Tensor] = field(default_factory=dict)
    no_backward: str = ""


def repeat(
    record: CallRecord,
    *,
    keep: Collection[tuple[int, int, int]] = (),
    operations: Operations | None = None,
    mode: AbstractContextManager[Any] | None = None,
) -> Repeated:
    """Make a recorded call again, backward passes included.

    Weights, gradients, buffers, attributes, random generators and version counters are left as
    they are found.

    Args:
        record: The call; its backward passes have ended.
        keep: Gradients that are wanted, by `(pass, node's place, edge)`.
        operations: Is to see every operation.
        mode: Compute within this, otherwise as the call was.

    Raises:
        CannotRepeatError: It cannot be made again, or took another path.
    """
    found = Repeated()
    failures: list[Exception] = []
    with _put_back(record) as module, mode or nullcontext(), operations or nullcontext():
        _compute(record, module, found, failures, keep, operations)
    if failures:
        raise CannotRepeatError(f"a fault of its own: {type(failures[0]).__name__}: {failures[0]}")
    return found


@contextmanager
def again(record: CallRecord) -> Iterator[torch.nn.Module]:
    """Hold what a recorded call began with, its modes too; afterwards, what is held now.

    Hooks of the program on the module's parameters hear nothing within.

    Args:
        record: The call.

    Yields:
        The module that was called.

    Raises:
        CannotRepeatError: It cannot be made again, or what is computed within fails.
    """
    with _put_back(record) as module:
        assert record.settings is not None
        with record.settings.again(), _hooks_silent(list(module.parameters())):
            yield module


@contextmanager
def _put_back(record: CallRecord) -> Iterator[torch.nn.Module]:
    """Hold what a call began with; afterwards, what is held now."""
    module = record.module()
    held, settings, rng = record.held, record.settings, record.rng
    if module is None or held is None or settings is None or rng is None or not record.complete:
        raise CannotRepeatError(record.obstacle or "it was let go of")
    if why := record.why_changed():
        raise CannotRepeatError(why)
    if settings.autocast and autocast_is_open():
        raise CannotRepeatError("backward runs within autocast, whose cache is the program's")
    now = RngState.capture()
    try:
        with repetition(), held.again():
            rng.restore()
            yield module
    except DifferentPathError as error:
        raise CannotRepeatError(f"it took another path when it was repeated: {error}") from error
    except CannotRepeatError:
        raise
    except Exception as error:
        raise CannotRepeatError(f"the repeat raised {type(error).__name__}: {error}") from error
    finally:
        now.restore()


def _compute(
    record: CallRecord,
    module: torch.nn.Module,
    found: Repeated,
    failures: list[Exception],
    keep: Collection[tuple[int, int, int]],
    operations: Operations | None,
) -> None:
    assert record.settings is not None
    with record.settings.again():
        first = torch._C._autograd._get_sequence_nr()
        tensors = _go_forward(record, module, found, failures, operations)
    if record.graph is None or not record.passes:
        return
    if any(name in _REENTRANT for name in record.graph.shape.names):
        found.no_backward = "checkpointing in its reentrant form adds to gradients by itself"
        return
    try:
        graph = follow(record.graph.shape, tensors, first)
    except DifferentPathError as error:
        # A wrong number may choose another path: the outputs are compared all the same.
        found.no_backward = f"it took another path when it was repeated: {error}"
        return
    del tensors
    passes = [(n, each) for n, each in record.passes.items() if each.seeds]
    for index, (number, each) in enumerate(passes):
        if not each.announced:
            found.no_backward = "its gradients were taken by torch.autograd.grad"
        elif each.differentiable:
            found.no_backward = "a backward pass recorded a graph itself (create_graph=True)"
        else:
            last = index == len(passes) - 1
            with record.settings.again(casting=False):
                _go_back(graph, number, each, found, failures, keep, last=last)


def _go_forward(
    record: CallRecord,
    module: torch.nn.Module,
    found: Repeated,
    failures: list[Exception],
    operations: Operations | None,
) -> list[torch.Tensor]:
    """Repeat the forward pass; return its output tensors."""
    args, kwargs = cut_off((record.args, record.kwargs))
    trace = Trace(module, failures.append)
    if operations is not None:
        operations.trace = trace
    try:
        output = module(*args, **kwargs)
    finally:
        trace.remove()
    found.events = trace.events
    tensors = [tensor for _, tensor in tensors_in(output)]
    if len(tensors) != len(record.output_words):
        raise DifferentPathError("another number of outputs")
    with torch.no_grad(), torch._C.DisableTorchFunction():
        found.outputs = [tensor.detach() for tensor in tensors]
        found.output_words = [word_of(tensor) for tensor in tensors]
    return tensors


def _go_back(
    graph: CallGraph,
    number: int,
    each: Pass,
    found: Repeated,
    failures: list[Exception],
    keep: Collection[tuple[int, int, int]],
    *,
    last: bool,
) -> None:
    """Repeat one backward pass from the gradients that came in."""
    words: dict[int, list[Word | None]] = {}
    for gradient, before in each.seeds.values():
        if version(gradient) != before:
            raise CannotRepeatError("a gradient was written to after it was used")

    def fired(place: int, gradients: Sequence[torch.Tensor | None]) -> None:
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                words[place] = [word_of(gradient) for gradient in gradients]
                for edge, gradient in enumerate(gradients):
                    if gradient is not None and (number, place, edge) in keep:
                        found.kept[number, place, edge] = gradient.detach().clone()
        except Exception as error:
            failures.append(error)

    def seeded(place: int) -> Any:
        mine = {n: grad for (at, n), (grad, _) in each.seeds.items() if at == place}

        def hook(gradients: Any) -> Any:
            return tuple(mine.get(n, gradient) for n, gradient in enumerate(gradients))

        return hook

    targets = {(id(node), n): GradientEdge(node, n) for _, _, node, n in graph.out}
    if not targets:
        return
    places = [place for place, _ in each.seeds]
    if any(graph.nodes[place] is None for place in places):
        raise DifferentPathError("an operation that a gradient came into is not there")
    handles = hook_nodes(graph, fired)
    handles += [graph.nodes[place].register_prehook(seeded(place)) for place in set(places)]
    try:
        with ExitStack() as stack:
            leaves = [node.variable for _, _, node, _ in graph.out if hasattr(node, "variable")]
            stack.enter_context(_hooks_silent(leaves))
            if any(isinstance(node, BackwardCFunction) for node in graph.nodes):
                stack.enter_context(gradients_aside(leaves))
            torch.autograd.grad(
                [GradientEdge(graph.nodes[place], n) for place, n in each.seeds],
                list(targets.values()),
                [gradient for gradient, _ in each.seeds.values()],
                retain_graph=not last,
                allow_unused=True,
            )
    finally:
        for handle in handles:
            handle.remove()
    found.words[number] = words


@contextmanager
def _hooks_silent(leaves: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keep the program's hooks on parameters from hearing of the repeated gradients."""
    hooks = {id(h): h for leaf in leaves if (h := leaf._backward_hooks)}
    kept = [(hook, list(hook.items())) for hook in hooks.values()]
    for hook, _ in kept:
        hook.clear()
    try:
        yield
    finally:
        for hook, items in kept:
            hook.update(items)


@contextmanager
def gradients_aside(leaves: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keep gradients from an autograd function that calls another backward pass within its own."""
    kept = [(leaf, leaf.grad) for leaf in leaves]
    for leaf, _ in kept:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in kept:
            leaf.grad = gradient
