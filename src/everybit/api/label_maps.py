"""What the record of a rank says of label maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everybit.ledger import LogReader


def label_maps_of(log: LogReader) -> dict[tuple[str, str], dict[str, int]]:
    """Return the numbers of labels, by the loader's name and the data set's attribute."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for observed in log.observations:
        numbers = observed.data.get("numbers")
        if observed.kind == "label-map" and isinstance(numbers, dict):
            key = str(observed.data.get("loader")), str(observed.data.get("attribute"))
            found[key] = {str(label): number for label, number in numbers.items()}
    return found
