"""Where in a run a parting lies: module and call, parameter and state tensor, sample."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import sample_of, split_entry
from everybit.core.trace_name import TraceName, parse_trace_name

if TYPE_CHECKING:
    from everybit.diff.parting import Parting

#: Links whose names are parameters and optimizer state, not inputs or streams.
TENSOR_LINKS: Final = frozenset(
    {Link.INIT, Link.LOAD, Link.STATE, Link.GRAD, Link.REDUCE, Link.UPDATE}
)


def name_of(parting: Parting) -> str:
    """Return the name in the record of what parts first; "" where it is nothing with a name."""
    if parting.missing_in:
        return ""
    if parting.forgotten is not None:
        return parting.forgotten.state[0]
    first = parting.differences[0]
    if first.differing:
        return first.differing[0][0]
    return next(iter((*first.only_a, *first.only_b)), "")


def module_of(name: str) -> str | None:
    """Return the module of a recorded value; None where its name tells none.

    >>> module_of("grad blocks.0.attn()"), module_of("AdamW::exp_avg::head.weight"), module_of("0")
    ('blocks.0.attn', 'head', None)
    """
    traced = parse_trace_name(name)
    if traced is not None:
        return traced.module
    module, dot, _ = split_entry(name)["parameter"].rpartition(".")
    return module if dot else None


def place_of(parting: Parting) -> Location:
    """Return the place of a parting by its own record."""
    place = Location(step=parting.step, rank=parting.rank, link=parting.link)
    if parting.missing_in:
        return replace(place, link=None)
    name = name_of(parting)
    if parting.link is Link.OUTPUT:
        return replace(place, sample=sample_of(name))
    traced = parse_trace_name(name)
    if traced is not None:
        return replace(place, module=traced.module)
    if not name or parting.link not in TENSOR_LINKS:
        return place
    names = split_entry(name)
    # A second root module's tensors go by `Module:parameter`.
    module, mark, parameter = names["parameter"].partition(":")
    return replace(
        place,
        module=module if mark else None,
        parameter=parameter if mark else module,
        optimizer=names.get("optimizer"),
        tensor=names.get("tensor"),
    )


def shown(name: TraceName) -> str:
    """Return a traced value in words.

    >>> shown(parse_trace_name("grad lstm()#1.0"))
    "the gradient of lstm's output 0, call 1"
    """
    module = name.module or "the model"
    text = f"{module}'s output" + (f" {name.leaf}" if name.leaf else "")
    if name.op:
        text = f"{name.op} #{name.number} in {module}"
    if name.kind == "gradient":
        text = f"the gradient of {text}"
    return f"{text}, call {name.call}" if name.call else text
