"""Tracked tensors that lie in the same memory under version counters of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from everybit.guard.device_marks import DeviceMarks
    from everybit.guard.marks import Marks

    Place = tuple[Marks | DeviceMarks, int]


class Sharing:
    """Who lies in whose memory: a write to one tensor is a write to all that overlap it.

    Parameters tied through `.data`, flat parameters and their pieces, buffers that view a weight.

    Attributes:
        members: Every tensor that overlaps another, as marks and an index in them.
    """

    def __init__(self) -> None:
        self.members: list[Place] = []
        self._peers: dict[tuple[int, int], list[Place]] = {}

    def look(self, all_marks: Iterable[Marks | DeviceMarks]) -> None:
        """Find the overlaps among all tensors."""
        spans = sorted(
            (
                (*span_of(item.local), order, index, marks)
                for order, marks in enumerate(all_marks)
                for index, item in enumerate(marks.tracked)
            ),
            key=lambda span: span[:4],
        )
        self._peers = {}
        found: dict[tuple[int, int], Place] = {}
        open_: list[tuple[int, Place]] = []
        for start, end, _, index, marks in spans:
            open_ = [span for span in open_ if span[0] > start]
            if end == start:
                continue
            here: Place = (marks, index)
            for _, there in open_:
                for one, other in ((here, there), (there, here)):
                    self._peers.setdefault(_key(one), []).append(other)
                    found[_key(one)] = one
            open_.append((end, here))
        self.members = list(found.values())

    def with_(self, marks: Marks | DeviceMarks, index: int) -> list[Place]:
        """Return the tensors that overlap one."""
        return self._peers.get((id(marks), index), []) if self._peers else []

    def beside(self, marks: Marks | DeviceMarks) -> Iterator[Place]:
        """Yield the tensors of other marks that overlap any of these."""
        if self._peers:
            for index in range(len(marks)):
                for other, place in self.with_(marks, index):
                    if other is not marks:
                        yield other, place


def _key(place: Place) -> tuple[int, int]:
    return (id(place[0]), place[1])


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses `[start, end)` that the elements lie in."""
    if not tensor.numel():
        return (0, 0)
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    start = tensor.data_ptr()
    return (start, start + (reach + 1) * tensor.element_size())
