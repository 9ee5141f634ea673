"""Arguments of recorded calls, as far as they are constant, in a short form for people."""

from __future__ import annotations

from typing import Any, Final

from everybit.files.pickles.nodes import (
    Blob,
    Call,
    DictNode,
    Global,
    ListNode,
    Node,
    SetNode,
    Text,
    TupleNode,
)

_MAX_LENGTH: Final = 100
_MAX_ITEMS: Final = 4
_MAX_ARGUMENTS: Final = 8
_MAX_DEPTH: Final = 3
_MAX_INTEGER_BITS: Final = 128

_CONTAINERS: Final = {TupleNode: "()", ListNode: "[]", SetNode: "{}", DictNode: "{}"}

#: Stands for what is not constant.
UNKNOWN: Final = "?"


def as_string(node: Node) -> str | None:
    """Return text that an unpickler would make of a node; None where it is no constant text."""
    if isinstance(node, str):
        return node
    if isinstance(node, Text):
        return node.data.decode("utf-8", "surrogateescape")
    return None


def show_arguments(call: Call) -> list[str]:
    """Return a call's arguments: constants shortened, names as they are, "?" for the rest."""
    args = call.args
    if isinstance(args, (ListNode, TupleNode)):
        shown = [show(item) for item in args.items[:_MAX_ARGUMENTS]]
        if len(args.items) > _MAX_ARGUMENTS:
            shown.append("...")
    else:
        shown = [f"*{show(args)}"]
    if isinstance(call.kwargs, DictNode):
        shown += [f"{show(key)}={show(value)}" for key, value in call.kwargs.pairs[:_MAX_ITEMS]]
    return shown


def show(node: Node, depth: int = 0) -> str:
    """Return the short form of one value."""
    kind = type(node)
    if kind is str and len(node) <= _MAX_LENGTH:
        shown = repr(node)
        if len(shown) <= _MAX_LENGTH and shown.isascii():
            return shown
    if kind in _CONTAINERS:
        return _show_container(node, depth) if depth < _MAX_DEPTH else UNKNOWN
    text = as_string(node)
    if text is not None:
        return _shorten(repr(text[: _MAX_LENGTH * 2]), longer=len(text) > _MAX_LENGTH * 2)
    if isinstance(node, Blob):
        return _shorten(repr(node.data[:_MAX_LENGTH]), longer=len(node.data) > _MAX_LENGTH)
    if node is None or isinstance(node, (bool, float)):
        return repr(node)
    if isinstance(node, int):
        return repr(node) if node.bit_length() <= _MAX_INTEGER_BITS else "<a long integer>"
    return _shorten(node.qualified, longer=False) if isinstance(node, Global) else UNKNOWN


def _show_container(node: Node, depth: int) -> str:
    depth += 1
    if type(node) is DictNode:
        parts: list[Any] = node.pairs
        shown = [f"{show(key, depth)}: {show(value, depth)}" for key, value in parts[:_MAX_ITEMS]]
    else:
        parts = node.items
        shown = [show(item, depth) for item in parts[:_MAX_ITEMS]]
    if len(parts) > _MAX_ITEMS:
        shown.append("...")
    ends = _CONTAINERS[type(node)]
    return _shorten(f"{ends[0]}{', '.join(shown)}{ends[1]}", longer=False)


def _shorten(text: str, *, longer: bool) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if longer or len(text) > _MAX_LENGTH:
        return f"{text[: _MAX_LENGTH - 3]}..."
    return text
