"""Torch's weights_only unpickler over inert values: what its opcodes accept of which objects.

It is no second reading of pickles: it differs from every other unpickler in what it has (38
opcodes, a stack for each mark, any protocol number) and in what it lets happen, and shares with the
one machine how bytes are read and what containers are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import DictNode, ListNode, TupleNode
from everybit.files.pickles.reader import Reader
from everybit.files.weights_only.acceptance import Refusal
from everybit.files.weights_only.allowed import ALLOWED, ALLOWED_ONCE_IMPORTED, BLOCKED_MODULES
from everybit.files.weights_only.calls import call_known
from everybit.files.weights_only.keeping import hash_cost
from everybit.files.weights_only.names import library_of, numpy_dtype_class, renamed
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.values import Known, Mapping, Opaque, TensorValue

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import CallKind
    from everybit.files.weights_only.storages import Storages
    from everybit.files.weights_only.values import Value

_MAX_REFUSALS: Final = 1000
#: Copies that a pickle may ask for, in elements, beyond some for each of its bytes.
_FREE_COPIES: Final = 1_000_000
_COPIES_A_BYTE: Final = 4


class TorchMachine(Reader):
    """The state of torch's unpickler; values are those of `values.py`.

    Args:
        data: The pickle.
        storages: What a persistent id gives; None where torch fetches nothing (a pickle beside
            the object's, as in the legacy format).
    """

    def __init__(self, data: bytes, storages: Storages | None) -> None:
        super().__init__(data)
        self.storages = storages
        self.stack: list[Value] = []
        self.below: list[list[Value]] = []
        self.memo: dict[int, Value] = {}
        self.refusals: list[Refusal] = []
        self._told: set[tuple[str, str]] = set()
        self.budget = _FREE_COPIES + _COPIES_A_BYTE * len(data)

    # -- refusing --------------------------------------------------------------------------------

    def refuse(
        self, reason: str, position: int, *, name: str = "", by_name: bool = False,
        proved: bool = True, usual: bool = False,
    ) -> None:  # fmt: skip
        """Record a refusal, each name once."""
        if name and (name, reason) in self._told:
            return
        self._told.add((name, reason))
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
                    usual=usual,
                )
            )

    def spend(self, cost: int | None) -> None:
        """Take a cost from the budget of copies; None stands for a value that cannot be kept."""
        if cost is None:
            raise UnprovedError("keeps a key or an element that is not proved to be hashable")
        self.budget -= cost
        if self.budget < 0:
            raise UnprovedError("copies or hashes the same values too often")

    # -- the stack -------------------------------------------------------------------------------

    def push(self, value: Value) -> None:
        """Put a value on the stack, which may have changed while it was made."""
        self.stack.append(value)

    def mark(self) -> None:
        """MARK: begin a new stack."""
        self.below.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Value]:
        """Return what stands above the last mark, which goes."""
        items = self.stack
        self.stack = self.below.pop()
        return items

    def tuple_of(self, count: int) -> None:
        """TUPLE1 to TUPLE3."""
        if len(self.stack) < count:
            raise IndexError
        self.stack[-count:] = [TupleNode(self.stack[-count:])]

    def recall(self, key: int) -> None:
        """BINGET, LONG_BINGET."""
        if key not in self.memo:
            raise self.error(f"recalls memo {key}, which was never stored", self.at - 1)
        self.stack.append(self.memo[key])

    # -- what opcodes do -------------------------------------------------------------------------

    def global_name(self) -> Value:
        """GLOBAL: one of the allowed names, or a refusal."""
        position = self.at - 1
        module = self.line().decode("utf-8")
        name = self.line().decode("utf-8")
        module, name = renamed(module, name)
        qualified = f"{module}.{name}"
        if module in BLOCKED_MODULES:
            self.refuse("is of a module that torch never allows", position, name=qualified)
        elif qualified in ALLOWED:
            return Known(qualified)
        elif qualified in ALLOWED_ONCE_IMPORTED:
            parts = ALLOWED_ONCE_IMPORTED[qualified]
            self.refuse(f"is allowed only once {parts} is imported", position, name=qualified)
        else:
            reason = "is not among the names that torch allows"
            self.refuse(reason, position, name=qualified, by_name=True)
        return Opaque(qualified, is_global=True)

    def call(self, kind: CallKind) -> None:
        """REDUCE, NEWOBJ."""
        args = self.stack.pop()
        function = self.stack.pop()
        if isinstance(function, Opaque):
            if not function.is_global:
                self.refuse(
                    "calls what a call returned, which torch never allows", self.at - 1,
                    name=function.name,
                )  # fmt: skip
            self.stack.append(Opaque(function.name, note=_note(args)))
        elif not isinstance(function, Known):
            self.refuse("calls what is no allowed function", self.at - 1)
            self.stack.append(Opaque(""))
        elif _holds_opaque(args):
            self.stack.append(Opaque(function.name))
        else:
            try:
                self.stack.append(call_known(self, kind, function.name, args))
            except UnprovedError as problem:
                self.refuse(
                    str(problem), self.at - 1, name=function.name, proved=problem.proved,
                    usual=problem.usual,
                )  # fmt: skip
                self.stack.append(Opaque(function.name))

    def outside(self) -> None:
        """BINPERSID: a storage."""
        key = self.stack.pop()
        held = (
            next((part for part in key.items if isinstance(part, Opaque)), None)
            if (isinstance(key, TupleNode))
            else None
        )
        if held is not None:
            if key.items[0] == "module":
                reason = "comes with its source code, as old files keep classes of modules"
                self.refuse(reason, self.at - 1, name=held.name)
            self.stack.append(Opaque(held.name, is_global=held.is_global))
            return
        try:
            if self.storages is None:
                raise UnprovedError("asks for a storage where there is none", proved=True)
            self.stack.append(self.storages.fetch(key))
        except UnprovedError as problem:
            self.refuse(str(problem), self.at - 1, proved=problem.proved, usual=problem.usual)
            self.stack.append(Opaque(""))

    def extend(self, items: list[Value]) -> None:
        """APPEND, APPENDS: to lists only."""
        target = self.stack[-1]
        if isinstance(target, ListNode):
            target.items.extend(items)
        else:
            self._refuse_filling(target, "appends to")

    def set_items(self, items: list[Value]) -> None:
        """SETITEM, SETITEMS: of dictionaries, ordered dictionaries and counters only."""
        target = self.stack[-1]
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
                    usual = isinstance(key, TensorValue)
                    self.refuse(str(problem), self.at - 1, proved=False, usual=usual)
        target.pairs.extend(zip(items[::2], items[1::2], strict=True))

    def _refuse_filling(self, target: Value, what: str) -> None:
        name = target.name if isinstance(target, Opaque) else ""
        thing = "an object" if name else f"a {_kind(target)}"
        allowed = "lists" if what == "appends to" else "dict, OrderedDict and Counter"
        self.refuse(f"{what} {thing}, which torch does for {allowed} only", self.at - 1, name=name)

    def build(self) -> None:
        """BUILD: attributes of ordered dictionaries and counters; tensors are not followed."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Opaque) or _holds_opaque(state):
            self._build_opaque(target)
        elif isinstance(target, Mapping) and target.kind == "Counter" and target.has_attributes:
            # One of the attributes may be a __setstate__.
            self.refuse("gives state to a counter twice", self.at - 1, proved=False)
        elif isinstance(target, Mapping) and isinstance(state, DictNode):
            target.has_attributes = target.has_attributes or bool(state.pairs)
            self.budget -= len(state.pairs)
            if self.budget < 0:
                self.refuse("copies the same values too often", self.at - 1, proved=False)
        else:
            proved = not isinstance(target, (TensorValue, Mapping))
            self.refuse(f"gives state to a {_kind(target)}", self.at - 1, proved=proved)

    def _build_opaque(self, target: Value) -> None:
        if isinstance(target, Opaque) and target.note:
            # Torch asks for the class of a NumPy dtype too, when it gets its state.
            reason = "is the class of a NumPy dtype that gets its state"
            self.refuse(reason, self.at - 1, name=target.note, by_name=True)


def _kind(value: Value) -> str:
    kinds = {"TupleNode": "tuple", "ListNode": "list", "DictNode": "dictionary", "SetNode": "set"}
    name = type(value).__name__
    return kinds.get(name, name.removesuffix("Value").lower())


def _holds_opaque(value: Value) -> bool:
    if isinstance(value, Opaque):
        return True
    return isinstance(value, TupleNode) and any(
        isinstance(item, Opaque)
        or (isinstance(item, TupleNode) and any(isinstance(part, Opaque) for part in item.items))
        for item in value.items
    )


def _note(args: Value) -> str:
    """Return the class of the NumPy dtype that a call with these arguments makes, or ""."""
    first = args.items[0] if isinstance(args, TupleNode) and args.items else None
    return numpy_dtype_class(first) if isinstance(first, str) else ""
