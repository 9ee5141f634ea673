"""The table by tensor of two models that were compared, in aligned lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.report.safe_text import number, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Tensors shown; the others with -v.
MAX_ROWS: Final = 12
_NAME: Final = 34
#: A larger distance is not one of rounding, and its number says nothing.
_MANY_ULP: Final = 1_000_000
_HEAD: Final = ("class", "tensor", "differ", "max abs", "relative", "ULP")


def tensor_table(comparison: Mapping[str, Any], limit: int | None) -> list[str]:
    r"""Return the tensors that differ, one a line under a head; nothing where none do.

    Args:
        comparison: Of a diff's verdict.
        limit: Most lines; all where None.

    >>> row = {"tensor": "w", "class": "sign", "num_elements": 6, "of": 6, "max_abs": 2.0}
    >>> print("\n".join(tensor_table({"tensors": [row]}, 5)))
    class  tensor  differ  max abs  relative  ULP
    sign   w       all 6   2
    """
    rows = [row for row in comparison.get("tensors", ()) if isinstance(row, dict)]
    if not rows:
        return []
    shown = rows[:limit]
    cells = [_HEAD, *(_cells(row) for row in shown)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    if len(shown) < len(rows):
        lines.append(f"and {len(rows) - len(shown):,} more (all with -v)")
    return lines


_GAP: Final = "  "


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    differ = ""
    if "num_elements" in row:
        count, total = row["num_elements"], row.get("of", 0)
        differ = f"all {total:,}" if count == total else f"{count:,} of {total:,}"
    ulp = row.get("max_ulp")
    return (
        printable(row.get("class", ""), 20),
        printable(row.get("tensor", ""), _NAME),
        differ,
        _short(row.get("max_abs")),
        _short(row.get("relative")),
        f"{ulp:,.0f}" if ulp is not None and ulp < _MANY_ULP else "",
    )


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else number(value)
