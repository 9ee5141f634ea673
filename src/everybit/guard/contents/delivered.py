"""The batches that were delivered last: what they held, and whether they still do when used."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.detect.batch_overwritten import (
    overwritten_before_use,
    overwritten_on_the_way,
    used_twice_in_place,
)
from everybit.probe.contents.blocks import block_word
from everybit.probe.contents.blocks import is_large as is_read_in_blocks
from everybit.probe.contents.words import LARGE_BYTES, bytes_of, is_plain, leaves_of, word_of_leaf
from everybit.probe.digest import readable
from everybit.probe.memory import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord
    from everybit.probe.contents.words import Leaves

#: Batches that are remembered; of their tensors only weak references are kept.
MAX_BATCHES: Final = 64
#: Findings of a loader that are told; further ones are the same damage again.
MAX_TOLD: Final = 3
#: Batches of a pass, from the first on and then every so many, whose bytes are read again when they
#: are delivered. Of a large batch parts are read, each time; all bytes in the first one and then in
#: every so many, once: when it is used, or when it is delivered, where no model gets it as it is.
FIRST_BATCHES: Final = 4
EVERY: Final = 16


@dataclass(slots=True, eq=False)
class _Leaf:
    """One tensor.

    Attributes:
        word: Word of all its bytes; 0 where it is not known.
        block: Word of parts of them, of a large one; else 0.
        is_read_in_part: Only its parts are read again when it is used.
    """

    path: str
    tensor: weakref.ref[torch.Tensor]
    address: int
    num_bytes: int
    version: int
    word: int
    block: int
    is_read_in_part: bool

    @property
    def seen(self) -> int:
        """What tells its bytes from another's; 0 where nothing is known."""
        return self.block or self.word

    def holds(self, *, in_part: bool) -> bool:
        """Whether it holds what it held."""
        tensor = self.tensor()
        if tensor is None:
            return True
        if in_part or not self.word:
            return not self.block or block_word(tensor) == self.block
        return word_of_leaf(tensor) == self.word

    def renew(self) -> None:
        """Take what it holds now."""
        tensor = self.tensor()
        self.word = word_of_leaf(tensor) if self.word and tensor is not None else 0
        self.block = block_word(tensor) if self.block and tensor is not None else 0


@dataclass(slots=True, eq=False)
class _Batch:
    record: SampleRecord
    leaves: list[_Leaf]
    num_uses: int = 0
    told: bool = False
    last_use: int = -1

    @property
    def is_held(self) -> bool:
        """Whether somebody holds a tensor of it still."""
        return bool([leaf for leaf in self.leaves if leaf.tensor() is not None])

    @property
    def is_over(self) -> bool:
        """Whether it was used, and nobody holds it any more."""
        return self.num_uses > 0 and not self.is_held


class Delivered:
    """Remember digests of the last batches, as they were made; test them when the model gets them.

    A write through torch moves the tensor's version counter: such a batch was changed on purpose
    and is compared no more. Numpy arrays have no such counter and are not compared.

    Attributes:
        num_arrived: Batches of workers whose bytes were compared at delivery.
        num_used: Tensors whose bytes were compared when the model got them.
        num_rewritten: Tensors that the program had written in between, through torch.
        num_in_part: Large batches of which parts were compared, and not all bytes.
    """

    def __init__(self) -> None:
        self.num_arrived = 0
        self.num_used = 0
        self.num_rewritten = 0
        self.num_in_part = 0
        self._batches: deque[_Batch] = deque(maxlen=MAX_BATCHES)
        # Those of which a tensor was held when the last one was delivered: all that can be met.
        self._held: list[_Batch] = []
        self._used: set[str] = set()
        self._lost: dict[tuple[str, int], _Batch] = {}
        self._told: dict[str, int] = {}

    def deliver(self, record: SampleRecord, batch: Any, facts: BatchFacts | None) -> list[Finding]:
        """Take a batch as the loop is about to get it; test it against what its worker made."""
        made = dict(facts.leaves) if facts is not None else {}
        blocks = dict(facts.blocks) if facts is not None else {}
        held = leaves_of(batch)
        is_large = bytes_of(held) > LARGE_BYTES
        leaves = []
        for path, tensor in _tensors(held):
            word, block, in_part = made.get(path, 0), 0, False
            if is_large and is_read_in_blocks(tensor):
                in_part = not _is_read_in_full(record, bool(word), measured=facts is not None)
                block = blocks.get(path, 0) or block_word(tensor)
            if not word and not in_part:
                word = word_of_leaf(tensor)
            leaves.append(
                _Leaf(
                    path,
                    weakref.ref(tensor),
                    tensor.data_ptr(),
                    tensor.nbytes,
                    version(tensor),
                    word,
                    block,
                    in_part,
                )
            )
        self.num_in_part += is_large and any(leaf.is_read_in_part for leaf in leaves)
        arrived = _Batch(record, leaves)
        while self._batches and self._batches[0].is_over:
            self._batches.popleft()
        self._held = [each for each in self._held[1 - MAX_BATCHES :] if each.is_held]
        self._mark_overwritten(arrived)
        self._batches.append(arrived)
        self._held.append(arrived)
        if record.worker < 0:
            return []
        chosen = record.batch < FIRST_BATCHES or record.batch % EVERY == 0
        sent = [leaf for leaf in leaves if leaf.path in blocks or (chosen and made.get(leaf.path))]
        self.num_arrived += bool(sent)
        wrong = [
            leaf for leaf in sent if not leaf.holds(in_part=self._arrives_in_part(leaf, record))
        ]
        for leaf in wrong:
            leaf.renew()
        if not wrong or not self._may_tell(record):
            return []
        return [overwritten_on_the_way(record, [leaf.path for leaf in wrong])]

    def use(self, args: Any, kwargs: Mapping[str, Any], step: int) -> list[Finding]:
        """Test the batch that a model is called with."""
        used: dict[int, tuple[_Batch, list[_Leaf]]] = {}
        for _, tensor in _tensors(leaves_of([list(args), dict(kwargs)])):
            for batch, leaf in self._matches(tensor):
                leaves = used.setdefault(id(batch), (batch, []))[1]
                if leaf not in leaves:
                    leaves.append(leaf)
        found = []
        for batch, leaves in used.values():
            wrong = [leaf for leaf in leaves if self._is_overwritten(leaf)]
            if wrong and self._may_tell(batch.record):
                paths = [leaf.path for leaf in wrong]
                by = self._holder_of(wrong[0], batch)
                found.append(overwritten_before_use(batch.record, paths, step=step, by=by))
            for leaf in wrong:
                leaf.renew()
            found += self._in_place_of_another(batch, step)
            batch.num_uses += 1
            self._used.add(batch.record.loader)
        return found

    def record_of(self, tensor: torch.Tensor) -> SampleRecord | None:
        """Return the delivered batch that a tensor is of; None where it is of none.

        On another device, or made anew from the batch, it is the last one delivered whose tensors
        have as many rows.
        """
        for batch, _ in self._matches(tensor):
            return batch.record
        for batch in reversed(self._batches):
            sizes = {leaf.shape[0] for each in batch.leaves if (leaf := each.tensor()) is not None
                     and leaf.dim()}  # fmt: skip
            if tensor.dim() and tensor.shape[0] in sizes:
                return batch.record
            break
        return None

    def _matches(self, tensor: torch.Tensor) -> Iterator[tuple[_Batch, _Leaf]]:
        """Yield the delivered tensor that one is, or lies within: by identity, else by place."""
        if tensor.device.type != "cpu":
            return
        base = tensor._base if tensor._is_view() else None
        start = tensor.data_ptr()
        placed = None
        for batch in reversed(self._held):
            for leaf in batch.leaves:
                known = leaf.tensor()
                if known is None:
                    continue
                if known is tensor or known is base:
                    yield batch, leaf
                    return
                within = leaf.address <= start < leaf.address + leaf.num_bytes
                placed = placed or ((batch, leaf) if within else None)
        if placed is not None:
            yield placed

    def _arrives_in_part(self, leaf: _Leaf, record: SampleRecord) -> bool:
        """Whether only parts are read at delivery: not all bytes, or those when a model gets it."""
        if not leaf.block:
            return False
        # Of the first batch it is not known yet whether a model gets it: the second stands for it.
        if not record.batch or record.loader in self._used:
            return True
        return leaf.is_read_in_part and record.batch > 1

    def _is_overwritten(self, leaf: _Leaf) -> bool:
        tensor = leaf.tensor()
        if tensor is None or not leaf.seen:
            return False
        if version(tensor) != leaf.version:
            self.num_rewritten += 1
            leaf.word = leaf.block = 0
            return False
        self.num_used += 1
        return not leaf.holds(in_part=leaf.is_read_in_part)

    def _holder_of(self, leaf: _Leaf, batch: _Batch) -> SampleRecord | None:
        tensor = leaf.tensor()
        if tensor is None:
            return None
        now = block_word(tensor) if leaf.block else word_of_leaf(tensor)
        for other in reversed(self._batches):
            if other is not batch and any(
                each.path == leaf.path and each.seen == now for each in other.leaves
            ):
                return other.record
        return None

    def _mark_overwritten(self, arrived: _Batch) -> None:
        """Note which batches lie, unused, where the one that arrives was written."""
        place = (arrived.record.loader, arrived.record.epoch)
        seen: dict[int, int] = {}
        for batch in self._held:
            if batch.num_uses or place != (batch.record.loader, batch.record.epoch):
                continue
            seen = seen or {each.address: each.seen for each in arrived.leaves
                            if each.num_bytes and each.seen}  # fmt: skip
            for leaf in batch.leaves:
                # What nobody holds any more was let go of, and its memory is anybody's.
                other = seen.get(leaf.address)
                if other and leaf.seen and other != leaf.seen and leaf.tensor() is not None:
                    self._lost.setdefault(place, batch)
                    break

    def _in_place_of_another(self, batch: _Batch, step: int) -> list[Finding]:
        """Tell where a batch is used in one more step while one it was written over never was."""
        again = batch.num_uses and batch.last_use != step and batch is self._batches[-1]
        batch.last_use = step
        lost = self._lost.get((batch.record.loader, batch.record.epoch))
        if not again or lost is None or lost.num_uses or lost.told:
            return []
        lost.told = True
        if not self._may_tell(lost.record):
            return []
        return [used_twice_in_place(lost.record, batch.record, step=step)]

    def _may_tell(self, record: SampleRecord) -> bool:
        self._told[record.loader] = self._told.get(record.loader, 0) + 1
        return self._told[record.loader] <= MAX_TOLD


def _is_read_in_full(record: SampleRecord, at_hand: bool, *, measured: bool) -> bool:
    """Whether all bytes of a large tensor are to be read again.

    Args:
        record: The batch.
        at_hand: A word of all its bytes came with it.
        measured: It was measured where it was made.
    """
    if not record.batch:
        return True
    return (at_hand and record.batch >= EVERY) if measured else record.batch % EVERY == 0


def _tensors(leaves: Leaves) -> list[tuple[str, torch.Tensor]]:
    return [
        (path, leaf)
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor) and leaf.is_cpu and (is_plain(leaf) or readable(leaf))
    ]
