"""What a drill's table says, in numbers that text and page share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def struck(cell: Mapping[str, Any]) -> int:
    """Return how many faults changed a bit of the run, or ended it."""
    return sum(int(cell[fate]) for fate in ("caught", "noted", "missed", "raised"))


def share_text(cell: Mapping[str, Any]) -> str:
    """Return `caught/struck`; `harmless` where no bit of the run changed, `-` where none struck."""
    if struck(cell):
        return f"{cell['caught']}/{struck(cell)}"
    return "harmless" if cell["harmless"] else "-"


def rules_text(rules: Mapping[str, int]) -> str:
    """Return the rules, the most frequent first: `MEM601 12, NUM501 1`."""
    return ", ".join(f"{rule} {count}" for rule, count in rules.items())


def loss_text(change: float | str | None) -> str:
    """Return the largest relative change of a final loss."""
    if change is None or isinstance(change, str):
        return change or ""
    return "nothing" if change == 0 else f"{change:.1%}" if change >= 0.001 else f"{change:.0e}"


def grid_of(
    cells: Iterable[Mapping[str, Any]],
) -> tuple[list[str], dict[tuple[str, str], dict[str, Mapping[str, Any]]]]:
    """Return the shapes that occur, and by location and dtype the cell of each shape."""
    shapes: dict[str, None] = {}
    rows: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for cell in cells:
        shapes.setdefault(str(cell["shape"]))
        rows.setdefault((str(cell["site"]), str(cell["dtype"])), {})[str(cell["shape"])] = cell
    return list(shapes), rows
