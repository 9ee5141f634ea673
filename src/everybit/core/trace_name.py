"""Names of traced values: what a call of a module gave, and the gradient that came back to it.

A name reads like the call: `blocks.0.attn()` is what the module `blocks.0.attn` gave. In full::

    ["grad "] module "()" ["#" call] ["~" pass] ["." leaf] [" " op "#" number]

`module` is the qualified name within its root (`Teacher:blocks.0` in a root that is not the first,
nothing for the first root itself); `call` counts the calls of that module within the step, `pass`
the backward passes through the same call, both from 0, which is left out; `leaf` is the dotted path
within what the call gave, nothing where that is one tensor. At the level of operations `op` and
`number` follow: the number-th operation of that name within the call. In module, leaf and op a
percent sign, `(`, `)`, `#`, `~` and space are written as `%` and two hexadecimal digits, so that
every name is read back as it was.

No name of a parameter is a traced name, unless somebody puts `()` into it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final


class TraceKind(StrEnum):
    """What a traced value is."""

    OUTPUT = "output"
    GRADIENT = "gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceName:
    """A traced value's name, taken apart.

    Attributes:
        kind: What a call gave, or the gradient of that.
        module: Qualified name of the module; "" for the first root itself.
        call: Number of the call of that module within the step.
        leaf: Dotted path within what it gave; "" where that is one tensor.
        again: Number of the backward pass through the call (gradients).
        op: The operation within the call; "" for what the call itself gave.
        number: Which of the operations of that name within the call.
    """

    kind: TraceKind
    module: str
    call: int = 0
    leaf: str = ""
    again: int = 0
    op: str = ""
    number: int = 0

    def __str__(self) -> str:
        text = "grad " if self.kind is TraceKind.GRADIENT else ""
        text += f"{_written(self.module)}()"
        if self.call:
            text += f"#{self.call}"
        if self.again:
            text += f"~{self.again}"
        if self.leaf:
            text += f".{_written(self.leaf)}"
        if self.op:
            text += f" {_written(self.op)}#{self.number}"
        return text


_NAME: Final = re.compile(
    r"(?P<grad>grad )?(?P<module>[^()#~ ]*)\(\)(?:#(?P<call>\d{1,15}))?(?:~(?P<again>\d{1,15}))?"
    r"(?:\.(?P<leaf>[^()#~ ]+))?(?: (?P<op>[^()#~ ]+)#(?P<number>\d{1,15}))?"
)
_SPECIAL: Final = re.compile(r"[%()#~\s]")
_ESCAPES: Final = re.compile(r"(?:%[0-9a-f]{2})+")


def forward_name(module: str, call: int = 0, leaf: str = "") -> str:
    """Return the name of what a call of a module gave.

    >>> forward_name("blocks.0.attn"), forward_name("lstm", 1, "1.0"), forward_name("")
    ('blocks.0.attn()', 'lstm()#1.1.0', '()')
    """
    return str(TraceName(kind=TraceKind.OUTPUT, module=module, call=call, leaf=leaf))


def output_gradient_name(module: str, call: int = 0, leaf: str = "", again: int = 0) -> str:
    """Return the name of the gradient of what a call of a module gave.

    >>> output_gradient_name("blocks.0.attn"), output_gradient_name("lstm", 1, "0", 2)
    ('grad blocks.0.attn()', 'grad lstm()#1~2.0')
    """
    return str(TraceName(kind=TraceKind.GRADIENT, module=module, call=call, leaf=leaf, again=again))


@lru_cache(maxsize=65_536)
def parse_trace_name(name: str) -> TraceName | None:
    """Read a name back; None where it is none of a traced value (a parameter's, say).

    >>> parse_trace_name("grad lstm()#1.0").module
    'lstm'
    >>> parse_trace_name("lstm.weight_ih_l0") is None
    True
    """
    if "()" not in name:
        return None
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    parts = match.groupdict()
    return TraceName(
        kind=TraceKind.GRADIENT if parts["grad"] else TraceKind.OUTPUT,
        module=_read(parts["module"]),
        call=int(parts["call"] or 0),
        leaf=_read(parts["leaf"] or ""),
        again=int(parts["again"] or 0),
        op=_read(parts["op"] or ""),
        number=int(parts["number"] or 0),
    )


def _written(text: str) -> str:
    if not _SPECIAL.search(text):
        return text
    return _SPECIAL.sub(lambda match: "".join(f"%{b:02x}" for b in match[0].encode("utf-8")), text)


def _read(text: str) -> str:
    if "%" not in text:
        return text
    return _ESCAPES.sub(lambda match: _decoded(match[0]), text)


def _decoded(escapes: str) -> str:
    return bytes.fromhex(escapes.replace("%", "")).decode("utf-8", "replace")
