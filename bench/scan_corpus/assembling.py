"""Pickles put together opcode by opcode: nothing here is ever called, only named."""

from __future__ import annotations

import pickle
import struct
from typing import Any, Final

from bench.scan_corpus.sample import SHELL

PROTO_2: Final = b"\x80\x02"
PROTO_4: Final = b"\x80\x04"
STOP: Final = b"."


def named(module: str, name: str) -> bytes:
    """GLOBAL, the form of protocols 0 to 3 (a dotted name is looked up from protocol 4 on)."""
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def stacked(module: str, name: str) -> bytes:
    """STACK_GLOBAL, the form of protocol 4, which follows dotted names."""
    return _short(module) + _short(name) + b"\x93"


def _short(value: str) -> bytes:
    """SHORT_BINUNICODE."""
    data = value.encode("utf-8")
    return b"\x8c" + bytes([len(data)]) + data


def text(value: str) -> bytes:
    """BINUNICODE, which torch's `weights_only` reader knows too."""
    data = value.encode("utf-8")
    return b"X" + struct.pack("<I", len(data)) + data


def put(value: Any) -> bytes:
    """Opcodes that push a value; `bytes` in a `Code` are opcodes already."""
    if isinstance(value, Code):
        return value.opcodes
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return b"B" + struct.pack("<I", len(value)) + value
    if isinstance(value, tuple):
        return b"(" + b"".join(put(item) for item in value) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(put(item) for item in value) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(put(key) + put(item) for key, item in value.items()) + b"u"
    raise TypeError(type(value).__name__)


class Code:
    """Opcodes that leave one object on the stack."""

    def __init__(self, opcodes: bytes) -> None:
        self.opcodes = opcodes

    def __call__(self, *arguments: Any) -> Code:
        """REDUCE with these arguments."""
        return Code(self.opcodes + put(arguments) + b"R")


def of(module: str, name: str, *, dotted: bool | None = None) -> Code:
    """A global as an object; dotted names by STACK_GLOBAL."""
    by_stack = "." in name if dotted is None else dotted
    return Code(stacked(module, name) if by_stack else named(module, name))


def whole(code: Code | bytes, *, proto: bytes = PROTO_4) -> bytes:
    """A pickle of one object."""
    return proto + (code.opcodes if isinstance(code, Code) else code) + STOP


def shell() -> Code:
    """The payload that every scanner knows: what hides it is what is tested."""
    return of("posix", "system")(SHELL)


def plain(value: Any, protocol: int = 2) -> bytes:
    """A harmless pickle."""
    return pickle.dumps(value, protocol)
