"""The scene of an incident: what is at hand at the moment of a finding, kept in the run folder."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.core.boundary import Boundary
from everybit.core.damage import Role
from everybit.core.dtype import ITEMSIZE
from everybit.core.link import Link
from everybit.guard.check import Check
from everybit.guard.policy import LOGGER
from everybit.guard.shards import local_of
from everybit.ledger import IncidentStore, SavedTensor, Scene
from everybit.probe.digest import flatten
from everybit.probe.memory import TensorMemory, dtype_name, row_major, why_unreadable
from everybit.probe.rng_states import rng_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from everybit.core.config import Config
    from everybit.core.damage import Damage
    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.state import CarriedState
    from everybit.guard.tracked import Tracked
    from everybit.ledger import RunWriter

    Bytes = NDArray[np.uint8]

#: Losses that a scene keeps.
MAX_LOSSES: Final = 64
#: Larger tensors are cut to the neighbourhood of the damage.
MAX_TENSOR_BYTES: Final = 16 * 1024 * 1024
#: All tensors of a scene; where it is used up, only neighbourhoods are kept.
MAX_SCENE_BYTES: Final = 64 * 1024 * 1024
#: Elements on either side of the damage that a cut keeps.
MARGIN: Final = 4096
#: Tensors that a scene keeps; findings of more are in it all the same.
MAX_TENSORS: Final = 64


class Scenes(Check):
    """Keeps scenes: follows the loop as a check does, and finds nothing itself.

    Args:
        state: The carried state; hands over the bytes of damaged tensors before they are healed.
        config: Its `keep_batch`, `incident_mb` and `max_incidents`.
        last_losses: Returns the losses of the step that has just ended.
    """

    def __init__(
        self, state: CarriedState, config: Config, last_losses: Callable[[], Sequence[float]]
    ) -> None:
        self._state = state
        self._config = config
        self._last_losses = last_losses
        self._losses: deque[tuple[int, float]] = deque(maxlen=MAX_LOSSES)
        self._batch: list[tuple[str, Any]] = []
        self._found: dict[str, SavedTensor] = {}
        self._num_bytes = 0
        self._store: IncidentStore | None = None
        self._folder = ""
        if config.incident_mb and config.max_incidents:
            state.keep = self._take_damage

    def open(self, writer: RunWriter) -> None:
        """Keep scenes in this run from now on."""
        if self._config.incident_mb and self._config.max_incidents:
            self._store = IncidentStore(
                writer.path.absolute(),
                rank=writer.rank,
                attempt=writer.attempt,
                log=writer.log_name,
                max_bytes=self._config.incident_mb * 1_000_000,
                max_incidents=self._config.max_incidents,
            )

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Hold on to the batch, where it is asked for."""
        if boundary is Boundary.FORWARD_START and self._config.keep_batch and self._store:
            if not moment.call:
                self._batch = []
            prefix = f"#{moment.call}." if moment.call else ""
            leaves = [*flatten(list(moment.args)), *flatten(dict(moment.kwargs))]
            self._batch += [(prefix + path, value) for path, value in leaves]
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Remember the losses of the step."""
        self._losses += [(moment.step, loss) for loss in self._last_losses()]
        return ()

    def keep(self, findings: Sequence[Finding], step: int) -> str:
        """Write the scene of some findings; an error is one warning, and no scene is kept again.

        Returns:
            Its folder, relative to the run folder; "" where none was kept.
        """
        found, self._found = self._found, {}
        if not findings or self._store is None:
            return ""
        folder = None
        try:
            if self._store.room():
                folder = self._store.keep(self._scene(findings, step, found))
            else:
                self._close("no room is left for scenes of incidents; findings are recorded")
        except Exception as error:
            self._fail(error)
        self._num_bytes = 0
        return f"{folder.parent.name}/{folder.name}" if folder is not None else ""

    def _fail(self, error: Exception) -> None:
        told = str(error) or type(error).__name__
        if isinstance(error, OSError):
            told = (error.strerror or told).lower()
        self._close(f"no scenes of incidents are kept any more: {' '.join(told.split())}")
        LOGGER.debug("no scene was kept", exc_info=error)

    def _close(self, why: str) -> None:
        self._store = None
        self._state.keep = None
        self._batch, self._found = [], {}
        LOGGER.warning("everybit: %s; the job goes on", why)

    def _scene(
        self, findings: Sequence[Finding], step: int, found: dict[str, SavedTensor]
    ) -> Scene:
        notes: list[str] = []
        tensors = dict(found)
        for finding in findings:
            for name, tensor in self._named_by(finding):
                if name in tensors or len(tensors) >= MAX_TENSORS:
                    continue
                why = why_unreadable(tensor)
                if why:
                    notes.append(f"{name}: {why}")
                else:
                    elements = finding.where.elements or ()
                    tensors[name] = self._saved(name, tensor, elements)
        return Scene(
            step=step,
            findings=tuple(findings),
            tensors=tuple(tensors.values())[:MAX_TENSORS],
            rng=rng_states(),
            losses=tuple(self._losses),
            batch=tuple(self._saved_batch(notes)),
            notes=tuple(notes),
        )

    def _named_by(self, finding: Finding) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors that a finding names, as they are now."""
        where = finding.where
        if where.parameter is None:
            return
        for item in self._state.tracked():
            if (item.parameter, item.module) != (where.parameter, where.module):
                continue
            if where.optimizer is not None and item.role is Role.STATE:
                if (item.optimizer, item.state) == (where.optimizer, where.tensor):
                    yield item.label, item.local
            elif item.role is not Role.STATE and where.tensor is None:
                yield item.label, item.local
                gradient = item.tensor.grad if item.tensor.is_leaf else None
                if where.link is Link.GRAD and gradient is not None:
                    yield f"grad::{item.label}", local_of(gradient)

    def _saved_batch(self, notes: list[str]) -> Iterator[SavedTensor]:
        for path, value in self._batch:
            if not isinstance(value, torch.Tensor):
                notes.append(f"batch {path}: a {type(value).__name__} is no tensor")
            elif why := why_unreadable(value):
                notes.append(f"batch {path}: {why}")
            else:
                yield self._saved(path, value, ())

    def _take_damage(
        self,
        item: Tracked,
        memory: TensorMemory,
        found: Bytes,
        right: Bytes | None,
        damage: Damage,
    ) -> None:
        """Take the bytes of a damaged tensor, in memory order."""
        if len(self._found) >= MAX_TENSORS:
            return
        try:
            self._add_found(item, memory, found, right, damage)
        except Exception as error:
            self._fail(error)

    def _add_found(
        self,
        item: Tracked,
        memory: TensorMemory,
        found: Bytes,
        right: Bytes | None,
        damage: Damage,
    ) -> None:
        name = f"grad::{item.label}" if item.role is Role.GRADIENT else item.label
        size = ITEMSIZE[damage.dtype]
        in_order = not memory.dense or memory.tensor.is_contiguous()
        if len(found) <= self._limit and not in_order:
            place = memory.elements(np.arange(len(found) // size)) if len(found) else None
            found, right = (_reordered(data, place, size) for data in (found, right))
            in_order = True
        if right is not None:
            damaged = np.flatnonzero(found != right) // size
            first, last = (int(damaged[0]), int(damaged[-1])) if len(damaged) else (0, 0)
        elif damage.element_ranges and in_order:
            first, last = damage.element_ranges[0][0], damage.element_ranges[-1][1] - 1
        else:
            first, last = 0, len(found) // size - 1
        start, end, note = _cut(len(found) // size, size, first, last, self._limit)
        self._num_bytes += (end - start) * size * (1 if right is None else 2)
        self._found[name] = SavedTensor(
            name=name,
            dtype=damage.dtype,
            shape=damage.shape,
            first=start,
            found=found[start * size : end * size].copy(),
            right=None if right is None else right[start * size : end * size].copy(),
            row_major=in_order,
            note=note,
        )

    @property
    def _limit(self) -> int:
        """Bytes that the next tensor may take; neighbourhoods of the damage are kept anyway."""
        return min(MAX_TENSOR_BYTES, max(MAX_SCENE_BYTES - self._num_bytes, 0))

    def _saved(self, name: str, tensor: torch.Tensor, elements: Sequence[int]) -> SavedTensor:
        """Return a tensor as it is now, cut around some elements where it is large."""
        tensor = tensor.detach()
        size, count = tensor.element_size(), tensor.numel()
        first, last = (min(elements), max(elements)) if elements else (0, 0)
        start, end, note = _cut(count, size, first, last, self._limit)
        kept = row_major(tensor)
        if note:
            kept = kept.reshape(-1)[start:end]
        self._num_bytes += (end - start) * size
        return SavedTensor(
            name=name,
            dtype=dtype_name(tensor.dtype),
            shape=tuple(tensor.shape),
            first=start,
            found=np.frombuffer(TensorMemory.of(kept).copy(), np.uint8),
            note=note,
        )


def _reordered(data: Bytes | None, place: NDArray[np.intp] | None, size: int) -> Any:
    """Return bytes in memory order in row-major order."""
    if data is None or place is None:
        return data
    ordered = np.empty_like(data)
    ordered.reshape(-1, size)[place] = data.reshape(-1, size)
    return ordered


def _cut(count: int, size: int, first: int, last: int, limit: int) -> tuple[int, int, str]:
    """Return the run of elements to keep around the damage, and what is said of the rest."""
    if count * size <= limit:
        return 0, count, ""
    start = max(first - MARGIN, 0)
    end = min(last + 1 + MARGIN, count, start + max(limit // size, 2 * MARGIN + 1))
    note = f"{end - start:,} of {count:,} elements, around the damage"
    if last >= end:
        note += "; the damage goes on beyond them"
    return start, end, note
