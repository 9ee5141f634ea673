"""The place of a finding on numerics, from a parameter's label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location

if TYPE_CHECKING:
    from everybit.core.link import Link
    from everybit.core.numbers import Origin, StepNumbers


def place_of(
    numbers: StepNumbers,
    link: Link,
    *,
    label: str | None = None,
    step: int | None = None,
    **keys: Any,
) -> Location:
    """Return the location of something in a step.

    Args:
        numbers: The step.
        link: The link it belongs to.
        label: A parameter's or buffer's label: its key, after `root:` where there are several.
        step: Where another step is meant.
        **keys: Any other keys of the location.
    """
    if label is not None:
        keys = {"parameter": label.partition(":")[2] or label, "module": owner_of(label)} | keys
    return Location(
        step=numbers.step if step is None else step,
        link=link,
        optimizer=numbers.optimizer or None,
        **keys,
    )


def owner_of(label: str) -> str | None:
    """Return the qualified name of the module that owns a parameter, None for the root itself.

    >>> owner_of("blocks.0.norm.weight"), owner_of("Critic:head.bias"), owner_of("weight")
    ('blocks.0.norm', 'Critic:head', None)
    """
    owner = label.rpartition(".")[0]
    return owner or (label.rpartition(":")[0] or None)


def origin_place(origin: Origin | None) -> dict[str, Any]:
    """Return the location keys that an origin gives."""
    if origin is None:
        return {}
    keys: dict[str, Any] = {"module": origin.module or None}
    if origin.parameter is not None:
        keys["parameter"] = origin.parameter.partition(":")[2] or origin.parameter
    return keys


def tell_origin(origin: Origin | None) -> str:
    """Return an origin in words, to follow a comma; "" where nothing is known."""
    if origin is None:
        return ""
    amount = ""
    if origin.num_bad:
        amount = f" ({origin.value} in {origin.num_bad} of {origin.num_elements} elements)"
    text = {
        "parameter": f"{origin.parameter} was not finite before the step{amount}",
        "buffer": f"buffer {origin.parameter} was not finite before the step{amount}",
        "input": f"an input of the model is not finite{amount}",
        "operation": f"first seen at {origin.operation}{_after(origin)}{amount}",
        "gradient": f"it begins at {origin.parameter}{amount}",
        "unknown": "its origin is not known",
    }[origin.source]
    if origin.neighbour:
        text += f"; {origin.neighbour} is finite still"
    return f"{text}; {origin.detail}" if origin.detail else text


def _after(origin: Origin) -> str:
    return f", past {origin.parameter}" if origin.parameter else ""
