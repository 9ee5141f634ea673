"""Which parts of its tensors a rank held, and digests of the whole ones, as a run has recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.diff.side import WholeWords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.ledger import LogReader


def shards_of(log: LogReader) -> dict[str, Any] | None:
    """Return which part of each parameter a rank held; None where it held whole tensors."""
    for observation in log.observed("shards"):
        data = observation.data
        places = zip(data["shapes"], data["offsets"], data["local_shapes"], strict=True)
        parts = zip(data["names"], places, strict=True)
        return {name: place for name, place in parts if "tensor" not in split_entry(name)}
    return None


def wholes_of(log: LogReader) -> Iterator[WholeWords]:
    """Yield the digests of whole tensors in the order in which they came out."""
    names: dict[str, list[str]] = {}
    for observation in log.observed("shards", "wholes"):
        data = observation.data
        if observation.kind == "shards":
            names[data["layout"]] = data["names"]
            continue
        first = data["first"]
        chosen = names.get(data["layout"], [])[first : first + len(data["words"])]
        words = {name: int(word, 16) for name, word in zip(chosen, data["words"], strict=False)}
        yield WholeWords(data["of"], Link(data["link"]), words)
