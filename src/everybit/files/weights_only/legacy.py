"""The format before torch 1.6 as torch reads it: five pickles, then the storages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.nodes import ListNode, TupleNode
from everybit.files.pickles.reader import PickleEndsError
from everybit.files.pickles.stream import MAX_PICKLE_BYTES, read_pickles
from everybit.files.weights_only.acceptance import Acceptance, Refusal
from everybit.files.weights_only.opcodes import run
from everybit.files.weights_only.quick import proves
from everybit.files.weights_only.seen import Seen
from everybit.files.weights_only.storages import LegacyStorages
from everybit.files.weights_only.unpickler import TorchMachine

if TYPE_CHECKING:
    from everybit.files.source import ByteSource
    from everybit.files.weights_only.storages import Storages
    from everybit.files.weights_only.values import Value

MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001
_FIRST_BYTES: Final = 64 * 1024
_COUNT_BYTES: Final = 8
#: Opcodes that are followed to see whether something is a pickle at all.
_MAX_STEPS: Final = 100_000


def read_legacy(source: ByteSource, seen: Seen | None = None) -> tuple[str, Acceptance, int]:
    """Return the kind of a file, what torch does with it, and where its object's pickle starts.

    The kind is "legacy", "pickle" for one that does not begin with torch's magic number, or ""
    for a file that begins with no pickle at all. The place is -1 where no pickle is to blame.

    Args:
        source: The file.
        seen: What was read of it already.
    """
    seen = seen or Seen()
    head = _Piece(source, 0)
    machine = head.walk()
    if machine is None:
        return _kind(head.data, seen), _damaged("ends within its first pickle"), -1
    if machine.refusals or not _is(machine.stack[-1], MAGIC):
        what = "is a pickle but none of torch.save: torch.load asks for its magic number first"
        found = _answer([Refusal(reason=what), *machine.refusals])
        return _kind(head.data, seen), found, 0
    at = machine.at
    for what, value in (("protocol number", _PROTOCOL), ("record of the machine", None)):
        machine = _Piece(source, at).walk()
        if machine is None:
            return "legacy", _damaged(f"ends within its {what}"), -1
        if machine.refusals:
            return "legacy", _answer(machine.refusals), -1
        if value is not None and not _is(machine.stack[-1], value):
            return "legacy", _refused(f"has another {what} than torch writes"), -1
        at += machine.at
    start = at
    plain = LegacyStorages()
    storages: Storages | None = plain
    known = seen.at(at, source.size - at)
    if known is not None and proves(known, plain):
        length = known.end - known.start
    else:
        machine = _Piece(source, at).walk(LegacyStorages)
        if machine is None:
            return "legacy", _damaged("ends within its object's pickle"), -1
        if machine.refusals:
            return "legacy", _answer(machine.refusals), at
        length, storages = machine.at, machine.storages
    at += length
    keys = _Piece(source, at).walk()
    if keys is None:
        return "legacy", _damaged("ends within the list of its storages"), -1
    if keys.refusals:
        return "legacy", _answer(keys.refusals), -1
    problem = _check_storages(source, at + keys.at, keys.stack[-1], storages)
    if problem is not None:
        return "legacy", problem, start
    return "legacy", Acceptance(accepted=True, end=length), start


def _kind(data: bytes, seen: Seen) -> str:
    """Return "pickle" for what some unpickler reads, though torch's does not, else ""."""
    if data[:1] == b"\x80":
        return "pickle"
    known = seen.at(0, min(len(data), _MAX_STEPS))
    if known is not None:
        return "pickle" if known.calls or known.num_nodes else ""
    first = read_pickles(data, max_steps=_MAX_STEPS).pickles[0]
    return "pickle" if first.calls or (first.error is None and first.num_nodes) else ""


class _Piece:
    """The bytes of the pickle at an offset: its end is not known before it is walked."""

    def __init__(self, source: ByteSource, start: int) -> None:
        self._source = source
        self._start = start
        self.data = b""

    def walk(self, make: type[LegacyStorages] | None = None) -> TorchMachine | None:
        """Return the machine at the end of the pickle; None where the file ends before it."""
        size = _FIRST_BYTES
        while True:
            self.data = self._source.read(self._start, size)
            machine = TorchMachine(self.data, make() if make is not None else None)
            try:
                run(machine)
            except PickleEndsError:
                if len(self.data) < size or size >= MAX_PICKLE_BYTES:
                    return None
                size *= 4
                continue
            return machine


def _is(value: Value, wanted: int) -> bool:
    return type(value) is int and value == wanted


def _check_storages(
    source: ByteSource, at: int, keys: Value, storages: Storages | None
) -> Acceptance | None:
    """Return why the storages behind the pickles cannot be read; None where they can."""
    declared = storages.declared if isinstance(storages, LegacyStorages) else {}
    listed = keys.items if type(keys) in (ListNode, TupleNode) else None
    if listed is None or not all(type(key) is str for key in listed):
        return _refused("has a list of storages that is none", proved=False)
    for key in listed:
        storage = declared.get(key)
        if storage is None:
            return _refused(f"lists storage {key[:80]}, which its object does not have")
        count = int.from_bytes(source.read(at, _COUNT_BYTES), "little", signed=True)
        at += _COUNT_BYTES + storage.num_bytes
        if at > source.size:
            return _damaged(f"ends within storage {key[:80]}")
        if count * STORED_ITEMSIZE[storage.dtype] != storage.num_bytes:
            return _damaged(f"has another count before storage {key[:80]} than its object says")
    missing = set(declared) - set(listed)
    if any(declared[key].num_bytes for key in missing):
        return _damaged("does not list every storage of its object")
    return None


def _answer(refusals: list[Refusal]) -> Acceptance:
    return Acceptance(accepted=False, refusals=tuple(refusals))


def _refused(reason: str, *, proved: bool = True) -> Acceptance:
    return _answer([Refusal(reason=reason, proved=proved)])


def _damaged(reason: str) -> Acceptance:
    return _refused(reason, proved=False).marked(damaged=True)
