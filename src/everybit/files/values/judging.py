"""What the values of a scanned file are judged to be: from senses to exact tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.files.values.holes import Hole, find_holes
from everybit.files.values.implausible import Implausible, find_implausible, may_be_implausible
from everybit.files.values.nonfinite import NonFinite, find_nonfinite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.source import ByteSource
    from everybit.files.values.scanning import Scan
    from everybit.files.values.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is wrong with the values of a file.

    Attributes:
        holes: Runs of zeros that do not belong, in file order.
        nonfinite: Tensors that are not finite, in file order.
        implausible: Tensors with implausible elements, in file order.
    """

    holes: tuple[Hole, ...] = ()
    nonfinite: tuple[NonFinite, ...] = ()
    implausible: tuple[Implausible, ...] = ()

    @property
    def damaged(self) -> set[str]:
        """Names of the tensors that hold any of it."""
        names = {t.name for hole in self.holes for t in (*hole.cut, *hole.covered)}
        spans = [one.span for one in self.nonfinite] + [one.span for one in self.implausible]
        for span in spans:
            names.update(span.names)
        return names


def judge(
    source: ByteSource,
    spans: Sequence[Span],
    scan: Scan,
    failed: Sequence[tuple[int, int]] = (),
    records: Sequence[tuple[int, int]] = (),
) -> Judged:
    """Judge the values of a file that was scanned.

    Args:
        source: The file.
        spans: The spans it was scanned with.
        scan: What the pass found.
        failed: `[start, end)` ranges whose checksum does not hold.
        records: And of an archive's records that cannot be right.

    Raises:
        PathError: The file cannot be read.
    """
    nonfinite, implausible = [], []
    for index, sensed in sorted(scan.sensed.items()):
        span = spans[index]
        assert span.kind is not None
        if sensed.num_bad:
            bad = find_nonfinite(source, span, sensed)
            if bad is not None:
                nonfinite.append(bad)
        elif may_be_implausible(sensed, span.kind):
            odd = find_implausible(source, span)
            if odd is not None:
                implausible.append(odd)
    return Judged(
        holes=tuple(find_holes(source, spans, scan, failed, records)),
        nonfinite=tuple(nonfinite),
        implausible=tuple(implausible),
    )
