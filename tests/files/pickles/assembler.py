"""Pickles put together opcode by opcode, as an attacker writes them."""

from __future__ import annotations

from typing import Any


class Raw(bytes):
    """Opcodes that leave one object on the stack."""


def push(value: Any) -> Raw:
    """Opcodes for a plain value, or those given."""
    if isinstance(value, Raw):
        return value
    if value is None:
        return Raw(b"N")
    if isinstance(value, bool):
        return Raw(b"\x88" if value else b"\x89")
    if isinstance(value, int):
        return Raw(b"J" + value.to_bytes(4, "little", signed=True))
    if isinstance(value, str):
        data = value.encode()
        return Raw(b"X" + len(data).to_bytes(4, "little") + data)
    if isinstance(value, bytes):
        return Raw(b"B" + len(value).to_bytes(4, "little") + value)
    if isinstance(value, tuple):
        return Raw(b"(" + b"".join(map(push, value)) + b"t")
    if isinstance(value, list):
        return Raw(b"(" + b"".join(map(push, value)) + b"l")
    pairs = (push(part) for pair in value.items() for part in pair)
    return Raw(b"(" + b"".join(pairs) + b"d")


def name(module: str, path: str) -> Raw:
    """A name by STACK_GLOBAL."""
    return Raw(push(module) + push(path) + b"\x93")


def call(function: Raw, *args: Any) -> Raw:
    """A call by REDUCE."""
    return Raw(function + push(args) + b"R")


def new(made_by: Raw, *args: Any) -> Raw:
    """An instance by NEWOBJ."""
    return Raw(made_by + push(args) + b"\x81")


def build(target: Raw, state: Any) -> Raw:
    """BUILD of an object."""
    return Raw(target + push(state) + b"b")


def pickled(value: Any, protocol: int = 4) -> bytes:
    """A whole pickle."""
    return b"\x80" + bytes([protocol]) + push(value) + b"."
