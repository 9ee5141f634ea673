"""Torch's weights_only unpickler over inert values: its opcodes, and what each accepts.

The opcodes are read by the one pickle machine's own table; here is only what torch's differs in:
which opcodes it has, which names, what may be called, filled, built and fetched from outside.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError
from everybit.files.pickles.machine import Machine
from everybit.files.pickles.nodes import Change, DictNode, ListNode, TupleNode
from everybit.files.pickles.opcodes import ACTIONS, MAX_STEPS
from everybit.files.pickles.reader import PickleEndsError
from everybit.files.weights_only.acceptance import Refusal
from everybit.files.weights_only.allowed import ALLOWED, ALLOWED_ONCE_IMPORTED, BLOCKED_MODULES
from everybit.files.weights_only.calls import call_known
from everybit.files.weights_only.keeping import hash_cost
from everybit.files.weights_only.names import library_of, numpy_dtype_class, opcode_name, renamed
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.values import Known, Mapping, Opaque, TensorValue

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import CallKind, Global, Node
    from everybit.files.weights_only.storages import Storages

_MAX_REFUSALS: Final = 1000
#: Copies that a pickle may ask for, in elements, beyond some for each of its bytes.
_FREE_COPIES: Final = 1_000_000
_COPIES_A_BYTE: Final = 4


class TorchMachine(Machine):
    """The machine, with torch's rules; values are those of `values.py`.

    Args:
        data: The pickle.
        storages: What a persistent id gives; None where torch fetches nothing (a pickle beside
            the object's, as in the legacy format).
    """

    def __init__(self, data: bytes, storages: Storages | None) -> None:
        super().__init__(data)
        self.storages = storages
        self.refusals: list[Refusal] = []
        self.budget = _FREE_COPIES + _COPIES_A_BYTE * len(data)

    # -- refusing --------------------------------------------------------------------------------

    def refuse(
        self, reason: str, position: int, *, name: str = "", by_name: bool = False,
        proved: bool = True,
    ) -> None:  # fmt: skip
        """Record a refusal, each name once."""
        if name and any(told.name == name and told.reason == reason for told in self.refusals):
            return
        if len(self.refusals) < _MAX_REFUSALS:
            library = library_of(name) if name else ""
            self.refusals.append(
                Refusal(
                    reason=reason,
                    name=name,
                    library=library,
                    position=position,
                    by_name=by_name,
                    proved=proved,
                )
            )

    def spend(self, cost: int | None) -> None:
        """Take a cost from the budget of copies; None stands for a value that cannot be kept."""
        if cost is None:
            raise UnprovedError("keeps a key or an element that is not proved to be hashable")
        self.budget -= cost
        if self.budget < 0:
            raise UnprovedError("copies or hashes the same values too often")

    # -- what opcodes do -------------------------------------------------------------------------

    def line_global(self) -> Global:
        """GLOBAL: one of the allowed names, or a refusal."""
        position = self.at - 1
        module = self.line().decode("utf-8")
        name = self.line().decode("utf-8")
        module, name = renamed(module, name)
        qualified = f"{module}.{name}"
        if module in BLOCKED_MODULES:
            self.refuse("is of a module that torch never allows", position, name=qualified)
        elif qualified in ALLOWED:
            return Known(qualified)  # type: ignore[return-value]
        elif qualified in ALLOWED_ONCE_IMPORTED:
            parts = ALLOWED_ONCE_IMPORTED[qualified]
            self.refuse(f"is allowed only once {parts} is imported", position, name=qualified)
        else:
            reason = "is not among the names that torch allows"
            self.refuse(reason, position, name=qualified, by_name=True)
        return Opaque(qualified, is_global=True)  # type: ignore[return-value]

    def call(self, kind: CallKind, function: Node, args: Node, kwargs: Node = None) -> None:
        """REDUCE, NEWOBJ."""
        if isinstance(function, Opaque):
            if not function.is_global:
                self.refuse(
                    "calls what a call returned, which torch never allows", self.at - 1,
                    name=function.name,
                )  # fmt: skip
            self.new(Opaque(function.name, note=_note(args)))
        elif not isinstance(function, Known):
            self.refuse("calls what is no allowed function", self.at - 1)
            self.new(Opaque(""))
        elif _holds_opaque(args):
            self.new(Opaque(function.name))
        else:
            try:
                self.new(call_known(self, kind, function.name, args))
            except UnprovedError as problem:
                self.refuse(str(problem), self.at - 1, name=function.name, proved=problem.proved)
                self.new(Opaque(function.name))

    def outside(self, key: Node) -> None:
        """BINPERSID: a storage."""
        held = (
            next((part for part in key.items if isinstance(part, Opaque)), None)
            if (isinstance(key, TupleNode))
            else None
        )
        if held is not None:
            if key.items[0] == "module":
                reason = "comes with its source code, as old files keep classes of modules"
                self.refuse(reason, self.at - 1, name=held.name)
            self.new(Opaque(held.name, is_global=held.is_global))
            return
        try:
            if self.storages is None:
                raise UnprovedError("asks for a storage where there is none", proved=True)
            self.new(self.storages.fetch(key))
        except UnprovedError as problem:
            self.refuse(str(problem), self.at - 1, proved=problem.proved)
            self.new(Opaque(""))

    def extend(self, items: list[Node], kind: Change = Change.APPEND) -> None:
        """APPEND, APPENDS: to lists only."""
        del kind  # torch has no opcode that adds to a set
        target = self.top()
        if isinstance(target, ListNode):
            target.items.extend(items)
        else:
            self._refuse_filling(target, "appends to")

    def set_items(self, items: list[Node]) -> None:
        """SETITEM, SETITEMS: of dictionaries, ordered dictionaries and counters only."""
        target = self.top()
        if not isinstance(target, (DictNode, Mapping)):
            self._refuse_filling(target, "sets items of")
            return
        if len(items) % 2:
            raise self.error("sets items of an odd number of keys and values", self.at - 1)
        for key in items[::2]:
            if not isinstance(key, Opaque) and not _holds_opaque(key):
                try:
                    self.spend(hash_cost(key))
                except UnprovedError as problem:
                    self.refuse(str(problem), self.at - 1, proved=False)
        target.pairs.extend(zip(items[::2], items[1::2], strict=True))

    def _refuse_filling(self, target: Node, what: str) -> None:
        name = target.name if isinstance(target, Opaque) else ""
        thing = "an object" if name else f"a {_kind(target)}"
        allowed = "lists" if what == "appends to" else "dict, OrderedDict and Counter"
        self.refuse(f"{what} {thing}, which torch does for {allowed} only", self.at - 1, name=name)

    def build(self) -> None:
        """BUILD: attributes of ordered dictionaries and counters; tensors are not followed."""
        state = self.pop()
        target = self.top()
        if isinstance(target, Opaque) or _holds_opaque(state):
            self._build_opaque(target)
        elif isinstance(target, Mapping) and isinstance(state, DictNode):
            target.has_attributes = target.has_attributes or bool(state.pairs)
            self.budget -= len(state.pairs)
            if self.budget < 0:
                self.refuse("copies the same values too often", self.at - 1, proved=False)
        else:
            proved = not isinstance(target, (TensorValue, Mapping))
            self.refuse(f"gives state to a {_kind(target)}", self.at - 1, proved=proved)

    def _build_opaque(self, target: Node) -> None:
        if isinstance(target, Opaque) and target.note:
            # Torch asks for the class of a NumPy dtype too, when it gets its state.
            reason = "is the class of a NumPy dtype that gets its state"
            self.refuse(reason, self.at - 1, name=target.note, by_name=True)

    def short_string(self) -> None:
        """SHORT_BINSTRING: UTF-8 text, as `torch.load` asks for."""
        self.push(self.take(self.take(1)[0]).decode("utf-8"))

    def proto(self) -> None:
        """PROTO: any number; torch warns for all but two."""
        self.protocol = max(self.protocol, self.take(1)[0])


def _kind(value: Node) -> str:
    kinds = {"TupleNode": "tuple", "ListNode": "list", "DictNode": "dictionary", "SetNode": "set"}
    name = type(value).__name__
    return kinds.get(name, name.removesuffix("Value").lower())


def _holds_opaque(value: Node) -> bool:
    if isinstance(value, Opaque):
        return True
    return isinstance(value, TupleNode) and any(
        isinstance(item, Opaque)
        or (isinstance(item, TupleNode) and any(isinstance(part, Opaque) for part in item.items))
        for item in value.items
    )


def _note(args: Node) -> str:
    """Return the class of the NumPy dtype that a call with these arguments makes, or ""."""
    first = args.items[0] if isinstance(args, TupleNode) and args.items else None
    return numpy_dtype_class(first) if isinstance(first, str) else ""


_SUPPORTED: Final = b"cR\x81bNu(t\x85\x86\x87s}])ae\x88\x89\x8fJKMGXQhqjr\x8a"
_ACTIONS: Final = {
    **{code: ACTIONS[code] for code in _SUPPORTED},
    ord("U"): TorchMachine.short_string,
    ord("b"): TorchMachine.build,
    0x80: TorchMachine.proto,
}
_STOP: Final = ord(".")


def run(machine: TorchMachine, *, max_steps: int = MAX_STEPS) -> None:
    """Walk one pickle from its first opcode to STOP as torch does; its result is left on top.

    Where torch raises, or is not proved not to, the machine's `refusals` say why.

    Raises:
        PickleEndsError: The bytes end before the pickle does.
    """
    data, start = machine.data, machine.at
    try:
        for _ in range(max_steps):
            start = machine.at
            if start >= len(data):
                raise machine.ended("ends without STOP", start)
            machine.at = start + 1
            code = data[start]
            if code == _STOP:
                machine.top()
                return
            action = _ACTIONS.get(code)
            if action is None:
                machine.refuse(f"uses opcode {opcode_name(code)}, which torch lacks", start)
                return
            action(machine)
        machine.refuse(f"has more than {max_steps} opcodes", start, proved=False)
    except PickleEndsError:
        raise
    except MalformedError as error:
        machine.refuse(error.damage.message.removeprefix("the pickle "), start)
    except (IndexError, struct.error):
        machine.refuse("takes from an empty stack", start)
    except (ValueError, OverflowError) as error:
        machine.refuse(f"holds an impossible value ({str(error)[:80]})", start)
