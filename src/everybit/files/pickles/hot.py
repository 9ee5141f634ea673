"""The loop over opcodes, with those that a large pickle consists of written out in it.

Each of these does what the table of actions says for it, and leaves all that is not plain to that
table: an operand that the bytes or a frame end within, a key that was never stored. It takes a
third of the time.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import Call, CallKind, DictNode, ListNode, TupleNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.files.pickles.machine import Machine

_REDUCE = CallKind.REDUCE
_NEWEST = 5  # protocol
_U32: Final = struct.Struct("<I").unpack_from
_I32: Final = struct.Struct("<i").unpack_from
#: What the keys of nearly all dictionaries are.
_NAMES: Final = frozenset({str, int})


def run(m: Machine, actions: Sequence[Callable[[Machine], None] | None], max_steps: int) -> bool:
    """Follow opcodes until one without an action; `m.begun` is the last one's offset.

    Args:
        m: The machine; its `steps` says afterwards how many opcodes were followed.
        actions: What each opcode does, by its byte; None for STOP and what is no opcode.
        max_steps: Most opcodes to follow.

    Returns:
        Whether an opcode without an action was met, and not the bound.
    """
    data, stack, marks, memo, calls = m.data, m.stack, m.marks, m.memo, m.made.calls
    size = len(data)
    at = start = m.at
    frame_end = m.frame_end
    step = nodes = 0
    alone = False
    floor = marks[-1] if marks else 0  # nothing is taken from below the last mark
    try:
        for step in range(1, max_steps + 1):  # noqa: B007 - told afterwards
            start = at
            code = data[at]
            at += 1
            if code > 0x7F:
                if code == 0x94:  # MEMOIZE, which torch's own unpickler lacks
                    alone = True
                    if len(stack) == floor:
                        raise IndexError
                    top = stack[-1]
                    key = len(memo)
                    if key in memo:
                        m.at = at
                        m.memoize(key)
                    else:
                        memo[key] = top
                    continue
                if code == 0x85:  # TUPLE1
                    if len(stack) != floor:
                        stack[-1] = TupleNode([stack[-1]])
                        nodes += 1
                        continue
                elif code == 0x89:  # NEWFALSE
                    stack.append(False)
                    continue
                elif code == 0x86:  # TUPLE2
                    if len(stack) - floor >= 2:
                        items = stack[-2:]
                        del stack[-2:]
                        stack.append(TupleNode(items))
                        nodes += 1
                        continue
                elif code == 0x8C:  # SHORT_BINUNICODE, which torch's own lacks too
                    if at < size:
                        end = at + 1 + data[at]
                        if end <= size and not at < frame_end < end:
                            alone = True
                            stack.append(data[at + 1 : end].decode("utf-8", "surrogatepass"))
                            at = end
                            continue
                elif code == 0x93:  # STACK_GLOBAL, which torch's own lacks too
                    two = len(stack) - floor >= 2
                    if two and type(stack[-1]) is str and type(stack[-2]) is str:
                        alone = True
                        name = stack.pop()
                        stack[-1] = m.reference(stack[-1], name, start)
                        continue
                elif code == 0x80 and start == m.start and at < size and data[at] <= _NEWEST:
                    m.protocol = m.protocol_in_force = data[at]  # PROTO, where it belongs
                    at += 1
                    continue
            elif code > 0x60:
                if code == 0x72:  # LONG_BINPUT
                    if at + 4 <= size and not at < frame_end < at + 4:
                        if len(stack) == floor:
                            raise IndexError
                        top = stack[-1]
                        (key,) = _U32(data, at)
                        if memo.setdefault(key, top) is not top:
                            m.at = at
                            m.memoize(key)
                        at += 4
                        continue
                elif code == 0x71:  # BINPUT
                    if at < size:
                        if len(stack) == floor:
                            raise IndexError
                        top = stack[-1]
                        if memo.setdefault(data[at], top) is not top:
                            m.at = at
                            m.memoize(data[at])
                        at += 1
                        continue
                elif code == 0x68:  # BINGET
                    if at < size and data[at] in memo:
                        stack.append(memo[data[at]])
                        at += 1
                        continue
                elif code == 0x74:  # TUPLE
                    if marks:
                        first = marks.pop()
                        items = stack[first:]
                        del stack[first:]
                        stack.append(TupleNode(items))
                        nodes += 1
                        floor = marks[-1] if marks else 0
                        continue
                elif code == 0x63:  # GLOBAL
                    middle = data.find(b"\n", at)
                    end = data.find(b"\n", middle + 1)
                    if at < middle < end - 1 and not at < frame_end <= end:
                        lines = data[at:end].decode("utf-8", "surrogateescape")
                        module, name = lines.split("\n")
                        stack.append(m.reference(module, name, start))
                        at = end + 1
                        continue
                elif code == 0x75:  # SETITEMS
                    first = marks[-1] if marks else 0
                    if first > (marks[-2] if len(marks) > 1 else 0):
                        target, keys = stack[first - 1], stack[first::2]
                        plain = type(target) is DictNode and len(keys) * 2 == len(stack) - first
                        if plain and keys and _NAMES.issuperset(map(type, keys)):
                            target.pairs.extend(zip(keys, stack[first + 1 :: 2], strict=True))
                            del stack[first:]
                            del marks[-1]
                            floor = marks[-1] if marks else 0
                            continue
                elif code == 0x65:  # APPENDS
                    first = marks[-1] if marks else 0
                    if first > (marks[-2] if len(marks) > 1 else 0):
                        target = stack[first - 1]
                        if type(target) is ListNode and len(stack) > first:
                            target.items.extend(stack[first:])
                            del stack[first:]
                            del marks[-1]
                            floor = marks[-1] if marks else 0
                            continue
                elif code == 0x7D:  # EMPTY_DICT
                    stack.append(DictNode([]))
                    nodes += 1
                    continue
            elif code > 0x40:
                if code == 0x4B:  # BININT1
                    if at < size:
                        stack.append(data[at])
                        at += 1
                        continue
                elif code == 0x58:  # BINUNICODE
                    if at + 4 <= size:
                        end = at + 4 + _U32(data, at)[0]
                        if end <= size and not at < frame_end < end:
                            stack.append(data[at + 4 : end].decode("utf-8", "surrogatepass"))
                            at = end
                            continue
                elif code == 0x52:  # REDUCE
                    if len(stack) - floor < 2:
                        raise IndexError
                    args = stack.pop()
                    stack[-1] = made = Call(_REDUCE, stack[-1], args, None, start)
                    calls.append(made)
                    nodes += 1
                    continue
                elif code == 0x4E:  # NONE
                    stack.append(None)
                    continue
                elif code == 0x4A:  # BININT
                    if at + 4 <= size and not at < frame_end < at + 4:
                        stack.append(_I32(data, at)[0])
                        at += 4
                        continue
                elif code == 0x5D:  # EMPTY_LIST
                    stack.append(ListNode([]))
                    nodes += 1
                    continue
            elif code == 0x28:  # MARK
                floor = len(stack)
                marks.append(floor)
                continue
            elif code == 0x29:  # EMPTY_TUPLE
                stack.append(TupleNode([]))
                nodes += 1
                continue
            action = actions[code]
            m.at = at
            if action is None:
                return True
            action(m)
            at, frame_end = m.at, m.frame_end
            floor = marks[-1] if marks else 0
    except IndexError:
        if start >= size:
            raise m.ended("ends without STOP", start) from None
        raise
    finally:
        m.begun, m.steps = start, step
        m.num_nodes += nodes
        if at > m.at:
            m.at = at
        if alone:
            m.shared = False
    return False
