"""Evaluations that were compared, in lines: by sample, and both checkpoints on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.report.safe_text import number, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def sample_lines(comparison: Mapping[str, Any]) -> list[str]:
    r"""Return what two evaluations differ in and what is to blame; nothing where none are compared.

    >>> told = {"samples": 96, "samples_differing": 3, "answers": 96, "answers_changed": 1,
    ...         "blame": "data", "why": "inputs differ"}
    >>> print("\n".join(sample_lines({"evaluation": told})))
    3 of 96 samples have other outputs; 1 of 96 answers changed
    data: inputs differ
    """
    told = comparison.get("evaluation")
    if not isinstance(told, dict):
        return []
    parts = [f"{told['samples_differing']:,} of {told['samples']:,} samples have other outputs"]
    if told.get("answers"):
        parts.append(f"{told['answers_changed']:,} of {told['answers']:,} answers changed")
    lines = ["; ".join(parts)] if told["samples"] else []
    return [*lines, f"{told['blame']}: {printable(told['why'], 400)}"]


def cross_lines(comparison: Mapping[str, Any]) -> list[str]:
    r"""Return the table of checkpoints by sides; nothing where there is none.

    >>> told = {"sides": ["one", "two"], "table": [[{"acc": 0.92}, {"acc": 0.87}], [None, None]]}
    >>> print("\n".join(cross_lines({"cross": told})))
       score  one   two
    A  acc    0.92  0.87
    B  -      -     -
    """
    told = comparison.get("cross")
    if not isinstance(told, dict):
        return []
    sides = [printable(side, 24) if side else "-" for side in told["sides"]]
    rows: list[Sequence[str]] = [("", "score", *sides)]
    for name, row in zip("AB", told["table"], strict=True):
        scores = list(dict.fromkeys(score for cell in row if cell for score in cell)) or ["-"]
        for at, score in enumerate(scores):
            shown = ["-" if not cell or score not in cell else number(cell[score]) for cell in row]
            rows.append((name if not at else "", printable(score, 24), *shown))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
