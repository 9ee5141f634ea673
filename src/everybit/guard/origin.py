"""Where non-finite values begin: the first bad parameter, buffer, input, operation or gradient.

Nothing is run again. For a loss, the graph that autograd has recorded is walked in the order of
the forward pass, and what its operations saved for the backward pass is looked at. What is behind
hooks (activation checkpointing, offloading) is left alone: to unpack it would run the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.core.numbers import Origin, Source
from everybit.detect.place import owner_of
from everybit.probe.numerics import count_bad, plain_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: Operations of a graph that are looked at.
MAX_NODES = 100_000

#: Operations that infinities below belong to: masks of attention, logarithms of nothing.
_MASKED = ("softmax", "logsumexp", "attention", "where", "masked", "crossentropy", "nllloss")
_STATISTICS = ("running_mean", "running_var")
_SAVED = "_raw_saved_"
_OWN = "tensors"


def find_loss_origin(
    loss: torch.Tensor,
    parameters: Iterable[tuple[str, torch.Tensor]],
    buffers: Iterable[tuple[str, torch.Tensor]],
) -> Origin:
    """Find where a non-finite loss comes from, before its graph is freed.

    Args:
        loss: The loss, with its graph.
        parameters: Labels and parameters of the model.
        buffers: Labels and buffers that were finite at the start of the run.
    """
    named, buffers = list(parameters), list(buffers)
    # The statistics of batch norm take in the values of this very step: they prove nothing.
    carried = [(label, t) for label, t in buffers if label.rpartition(".")[2] not in _STATISTICS]
    for source, tensors in ((Source.PARAMETER, named), (Source.BUFFER, carried)):
        for label, tensor in tensors:
            num_bad, value, _ = count_bad(tensor)
            if num_bad:
                return _at(source, label, tensor, num_bad, value)
    labels = {id(tensor): label for label, tensor in named}
    nodes = sorted(_nodes(loss), key=lambda node: node._sequence_nr())
    for node in nodes:
        found = _bad_value(node)
        if found is not None:
            attribute, tensor, num_bad, value = found
            if attribute in _STATISTICS:
                return _statistics(tensor, num_bad, value, buffers)
            return _named(node, attribute, tensor, num_bad, value, labels)
    return _last_operation(loss, labels)


def find_gradient_origin(
    gradients: Sequence[tuple[str, torch.Tensor | None]], norms: Sequence[float]
) -> Origin | None:
    """Find the gradient at which the backward pass went bad first: the last in forward order.

    Args:
        gradients: Labels and gradients, in the order of the forward pass.
        norms: Their norms; only those that are not finite are looked at, element by element.

    Returns:
        None where all elements are finite after all (a norm may overflow).
    """
    found: Origin | None = None
    neighbour: str | None = None
    last_good: str | None = None
    for (label, gradient), norm in zip(reversed(gradients), reversed(norms), strict=True):
        if gradient is None:
            continue
        if norm - norm == 0.0:  # Finite.
            if found is None:
                neighbour = last_good = label
            continue
        num_bad, value, _ = count_bad(gradient)
        if num_bad and found is None:
            found = Origin(
                source=Source.GRADIENT,
                parameter=label,
                module=owner_of(label),
                value=value,
                num_bad=num_bad,
                num_elements=gradient.numel(),
                neighbour=neighbour,
                detail="" if last_good else "no gradient nearer to the loss is finite",
            )
    return found


def _statistics(
    tensor: torch.Tensor, num_bad: int, value: str, buffers: Iterable[tuple[str, torch.Tensor]]
) -> Origin:
    """Name the running statistics that a normalisation layer in evaluation mode has used."""
    for label, buffer in buffers:
        if buffer.data_ptr() == tensor.data_ptr():
            return _at(Source.BUFFER, label, buffer, num_bad, value)
    return Origin(source=Source.BUFFER, value=value, num_bad=num_bad, num_elements=tensor.numel())


def _at(source: Source, label: str, tensor: torch.Tensor, num_bad: int, value: str) -> Origin:
    return Origin(
        source=source,
        parameter=label,
        module=owner_of(label),
        value=value,
        num_bad=num_bad,
        num_elements=tensor.numel(),
    )


def _nodes(loss: torch.Tensor) -> list[Any]:
    """Return the operations under a loss, but for those that gather gradients of leaves."""
    stack = [loss.grad_fn] if loss.grad_fn is not None else []
    seen: set[Any] = set(stack)
    found: list[Any] = []
    while stack and len(found) < MAX_NODES:
        node = stack.pop()
        if not hasattr(node, "variable"):
            found.append(node)
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                stack.append(below)
    return found


def _saved_values(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what an operation saved, without unpacking what is behind hooks."""
    for name in dir(node):
        if not name.startswith(_SAVED):
            continue
        try:
            raw = getattr(node, name)
            for each in raw if isinstance(raw, (tuple, list)) else (raw,):
                data = each.data  # The packed object, where there are hooks.
                if isinstance(data, torch.Tensor):
                    yield name.removeprefix(_SAVED), data
        except (RuntimeError, AttributeError):
            continue  # Freed, or never saved.


def _bad_value(node: Any) -> tuple[str, torch.Tensor, int, str] | None:
    masked = any(word in node.name().lower() for word in _MASKED)
    found = None
    for name, tensor in _saved_values(node):
        if "mask" in name or plain_values(tensor) is None:
            continue
        if name in _STATISTICS and getattr(node, "_saved_training", True):
            continue  # Not used by this step: written by it.
        num_bad, value, _ = count_bad(tensor)
        if num_bad and value == "-inf" and (masked or _only_below(tensor)):
            # Legal in a mask; where it is the fault, a NaN or a positive infinity follows.
            continue
        if num_bad and (found is None or name != "result"):
            found = (name, tensor, num_bad, value)
    return found


def _only_below(tensor: torch.Tensor) -> bool:
    plain = plain_values(tensor)
    return plain is not None and not bool((torch.isnan(plain) | (plain == torch.inf)).any())


def _named(
    node: Any,
    attribute: str,
    tensor: torch.Tensor,
    num_bad: int,
    value: str,
    labels: Mapping[int, str],
) -> Origin:
    """Name the operation that made a bad value: the one that saved it as its result, else below."""
    maker = node
    if attribute != "result":
        below = [each for each, _ in node.next_functions if each is not None]
        makers = [each for each in below if not hasattr(each, "variable")]
        if attribute == _OWN:
            # What a function of the program's own has saved may be its input or its result.
            makers = [each for each in makers if not _gave_finite(each)]
        leaf = not makers or (attribute in ("self", "input", "mat1") and _is_leaf(node, attribute))
        if leaf and attribute != _OWN and not tensor.requires_grad and tensor.grad_fn is None:
            near = _nearest(node, labels)
            return Origin(
                source=Source.INPUT,
                parameter=near,
                module=owner_of(near) if near else None,
                operation=_plain_name(node),
                value=value,
                num_bad=num_bad,
                num_elements=tensor.numel(),
                detail="it is so in float16" if tensor.dtype is torch.float16 else "",
            )
        same = [each for each in makers if each is tensor.grad_fn]
        maker = (same or makers or [node])[0]
    near = _nearest(maker, labels)
    return Origin(
        source=Source.OPERATION,
        parameter=near,
        module=owner_of(near) if near else None,
        operation=_plain_name(maker),
        value=value,
        num_bad=num_bad,
        num_elements=tensor.numel(),
        detail="inside it, or in its inputs" if attribute == _OWN and maker is node else "",
    )


def _gave_finite(node: Any) -> bool:
    """Whether an operation has saved its result, and it is finite."""
    return any(
        name == "result" and not count_bad(tensor)[0] for name, tensor in _saved_values(node)
    )


def _is_leaf(node: Any, attribute: str) -> bool:
    """Whether the saved input has no operation below it: it came from outside the graph."""
    order = {"self": 0, "input": 0, "mat1": 1}
    at = order[attribute]
    functions = node.next_functions
    return at < len(functions) and functions[at][0] is None


def _nearest(node: Any, labels: Mapping[int, str]) -> str | None:
    """Return the label of the parameter that the value passed last before a node."""
    level, seen = [node], {node}
    for _ in range(64):
        below = []
        for each in level:
            variable = getattr(each, "variable", None)
            if variable is not None and id(variable) in labels:
                return labels[id(variable)]
            for function, _ in each.next_functions:
                if function is not None and function not in seen:
                    seen.add(function)
                    below.append(function)
        if not below:
            return None
        level = below
    return None


def _last_operation(loss: torch.Tensor, labels: Mapping[int, str]) -> Origin:
    """Return what is known where everything that was saved is finite: the end of the graph."""
    num_bad, value, _ = count_bad(loss)
    node = loss.grad_fn
    if node is None:
        return Origin(source=Source.UNKNOWN, value=value)
    near = _nearest(node, labels)
    return Origin(
        source=Source.OPERATION,
        parameter=near,
        module=owner_of(near) if near else None,
        operation=_guilty(node),
        value=value,
        num_bad=num_bad,
        num_elements=loss.numel(),
        detail="every value saved for the backward pass is finite",
    )


def _guilty(node: Any) -> str:
    """Return the first operation from the loss down whose inputs are at the edge of its domain."""
    level, seen = [node], {node}
    while level:
        below = []
        for each in level:
            name = _plain_name(each)
            for attribute, tensor in _saved_values(each):
                plain = plain_values(tensor)
                if plain is None or plain.numel() == 0:
                    continue
                edge = name.startswith("log") and attribute == "self" and bool((plain <= 0).any())
                edge |= name == "div" and attribute == "other" and bool((plain == 0).any())
                if edge:
                    return name
            for function, _ in each.next_functions:
                if function is not None and function not in seen and len(seen) < MAX_NODES:
                    seen.add(function)
                    below.append(function)
        level = below
    return _plain_name(node)


def _plain_name(node: Any) -> str:
    """Return an operation's name as people know it: `SqrtBackward0` is `sqrt`."""
    name: str = node.name().rpartition("::")[2]
    name = name.rstrip("0123456789").removesuffix("Backward")
    return name[:1].lower() + name[1:]
