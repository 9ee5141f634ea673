"""CPython's own unpickler with stubs for everything outside: what it reads and what it would call.

Nothing harmful can run: names give stub classes, persistent ids give stub objects.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from everybit.files.pickles.nodes import (
    Blob,
    Call,
    DictNode,
    Extension,
    Global,
    ListNode,
    Persistent,
    SetNode,
    Text,
    TupleNode,
)


class Outside(type):
    """A stub class; the class itself takes all that an unpickler may do to an object."""

    def append(cls, item: Any) -> None:
        pass

    def extend(cls, items: Any) -> None:
        pass

    def add(cls, item: Any) -> None:
        pass

    def __setitem__(cls, key: Any, value: Any) -> None:
        pass


class Reference(pickle.Unpickler):
    """The C unpickler; `events` has what it imports, calls and asks for, in order."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", errors="surrogateescape")
        self.events: list[tuple[Any, ...]] = []
        self.classes: dict[tuple[str, str], type] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.classes:
            self.events.append(("import", module, name))
            self.classes[module, name] = self._stub(f"{module}.{name}")
        return self.classes[module, name]

    def persistent_load(self, key: Any) -> Any:
        made = self._stub("persistent")
        instance = object.__new__(made)
        _clear(instance)
        instance.args = (key,)
        self.events.append(("persistent",))
        return instance

    def _stub(self, label: str) -> type:
        events = self.events

        def new(cls: type, *args: Any, **kwargs: Any) -> Any:
            made = object.__new__(cls)
            _clear(made)
            made.args, made.kwargs = args, kwargs
            events.append(("call", label, len(args)))
            return made

        def call(self: Any, *args: Any) -> Any:
            made = object.__new__(type(self))
            _clear(made)
            made.args, made.function = args, self
            events.append(("call", "", len(args)))
            return made

        return Outside(
            "Stub",
            (),
            {
                "label": label,
                "__new__": new,
                "__call__": call,
                "__setstate__": lambda self, state: setattr(self, "state", state),
                "extend": lambda self, items: self.items.extend(items),
                "add": lambda self, item: self.items.append(item),
                "__setitem__": lambda self, key, value: self.pairs.append((key, value)),
            },
        )


def _clear(made: Any) -> None:
    made.args, made.kwargs, made.function = (), {}, None
    made.state, made.items, made.pairs = None, [], []


def events_of(pickle_: Any) -> list[tuple[Any, ...]]:
    """The same record, of ours."""
    found = [(node.position, ("import", node.module, node.name)) for node in pickle_.globals]
    for call in pickle_.calls:
        count = len(call.args.items) if isinstance(call.args, (TupleNode, ListNode)) else -1
        name = call.function.qualified if isinstance(call.function, Global) else ""
        found.append((call.position, ("call", name, count)))
    return found


class Comparison:
    """Whether an object that was loaded has the shape of a node; cycles are followed once."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def same(self, value: Any, node: Any) -> bool:
        todo = [(value, node)]
        while todo:
            value, node = todo.pop()
            if (id(value), id(node)) in self.seen:
                continue
            self.seen.add((id(value), id(node)))
            inner = _step(value, node)
            if inner is None:
                return False
            todo += inner
        return True


def _step(value: Any, node: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(node, Text):
        node = node.data.decode("utf-8", "surrogateescape")
    if isinstance(node, Blob):
        return (
            []
            if isinstance(value, (bytes, bytearray, memoryview)) and bytes(value) == node.data
            else None
        )
    if isinstance(node, TupleNode | ListNode):
        kind = tuple if isinstance(node, TupleNode) else list
        ok = type(value) is kind and len(value) == len(node.items)
        return list(zip(value, node.items, strict=True)) if ok else None
    if isinstance(node, DictNode):
        return _pairs(value, node) if type(value) is dict else None
    if isinstance(node, SetNode):
        return [] if isinstance(value, (set, frozenset)) else None
    if isinstance(node, (Global, Extension)):
        named = node.qualified if isinstance(node, Global) else "ext.name"
        return [] if isinstance(value, type) and value.label == named else None
    if isinstance(node, Persistent):
        return [(value.args[0], node.id)] if hasattr(value, "args") else None
    if isinstance(node, Call):
        return _call(value, node)
    return [] if type(value) is type(node) and repr(value) == repr(node) else None


def _pairs(value: dict[Any, Any], node: DictNode) -> list[tuple[Any, Any]] | None:
    # Keys that are equal in Python meet in one entry; only texts and numbers are told apart here.
    plain = {}
    for key, item in node.pairs:
        if isinstance(key, Text):
            key = key.data.decode("utf-8", "surrogateescape")
        if not isinstance(key, (str, int, float, type(None))):
            return []
        plain[key] = item
    if list(map(repr, plain)) != list(map(repr, value)):
        return None
    return list(zip(value.values(), plain.values(), strict=True))


def _call(value: Any, node: Call) -> list[tuple[Any, Any]] | None:
    if not hasattr(value, "args"):
        return None
    wanted = node.args.items if isinstance(node.args, (TupleNode, ListNode)) else []
    if len(wanted) != len(value.args) or len(node.items) != len(value.items):
        return None
    inner = [*zip(value.args, wanted, strict=True), *zip(value.items, node.items, strict=True)]
    if value.state is not None or node.state is not None:
        inner.append((value.state, node.state))
    if value.function is not None:
        inner.append((value.function, node.function))
    return inner
