"""SRC306: memory used while a `non_blocking=True` copy of it may still run."""

from __future__ import annotations

import ast
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from everybit.source.checks.copies import (
    MAX_BETWEEN,
    READERS,
    READS,
    VIEWS,
    Events,
    base_of,
    is_async,
    to_cpu,
)
from everybit.source.checks.flow import (
    bodies,
    bound_in,
    calls_in,
    end,
    exclude,
    loops_around,
    place,
    written,
)
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC306"
WORDS: Final = ("non_blocking",)
NEEDS: Final = WORDS
_PINNED: Final = frozenset(
    f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "empty_like")
)


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each asynchronous copy whose memory is used too early."""
    for body in bodies(module):
        calls = [call for call in calls_in([body]) if is_async(call)]
        if not calls:
            continue
        events = Events(module, body)
        for call in calls:
            hit = _judge_read(events, call) or _judge_write(events, call)
            if hit is not None:
                yield hit


# ---- a copy to the CPU that is read ------------------------------------------------------------


def _judge_read(events: Events, call: ast.Call) -> Hit | None:
    module = events.module
    if not to_cpu(module, call):
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    copied = written(owner) or module.source(owner)
    copied = copied if len(copied) <= 60 else "a tensor"
    whole, read = _outermost_view(module, call)
    if read is not None:
        return _read_hit(call, copied, read, call.lineno)
    statement = module.parents.get(whole)
    if isinstance(statement, ast.DictComp | ast.ListComp):
        statement = module.parents.get(statement)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = written(statement.targets[0])
    if name is None:
        return None
    reads = events.reads.get(name, [])
    after = bisect_left(reads, end(statement), key=lambda each: place(each[0]))
    for node, how in reads[after : after + MAX_BETWEEN]:
        if events.bound_between(statement, node, name):
            return None
        if exclude(module, statement, node):
            continue
        if events.waits_between(statement, node, name):
            return None
        return _read_hit(call, name, how, getattr(node, "lineno", call.lineno))
    return None


def _outermost_view(module: Module, call: ast.Call) -> tuple[ast.expr, str | None]:
    """Return the expression that a copy ends in, and the read it is part of, if any."""
    node: ast.expr = call
    while True:
        parent = module.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.value is node:
            around = module.parents.get(parent)
            if not isinstance(around, ast.Call) or around.func is not parent:
                return node, None
            if parent.attr in READS:
                return node, f".{parent.attr}()"
            if parent.attr not in VIEWS:
                return node, None
            node = around
            continue
        if isinstance(parent, ast.Call) and node in parent.args:
            name = module.resolve(parent.func)
            return node, f"{name}()" if name in READERS else None
        return node, None


def _read_hit(call: ast.Call, copied: str, how: str, line: int) -> Hit:
    return Hit(
        rule=RULE_ID,
        node=call,
        message=(
            f"`{copied}` is copied to the CPU with non_blocking=True and read by `{how}` before "
            "anything waits for the copy: the values may be what was in the memory before"
        ),
        evidence={"tensor": copied, "copy_line": call.lineno, "used_by": how, "used_line": line},
        remedy="Drop `non_blocking=True` here, or call `torch.cuda.synchronize()` before the read.",
    )


# ---- a pinned buffer that is written again -----------------------------------------------------


def _judge_write(events: Events, call: ast.Call) -> Hit | None:
    module = events.module
    buffer = _source(call)
    name = written(buffer) if buffer is not None else None
    if buffer is None or name is None or name not in events.writes:
        return None
    if not _is_pinned(module, buffer):
        return None
    writes = [node for node in events.writes[name] if node is not call]
    after = bisect_left(writes, end(call), key=place)
    for write in writes[after : after + MAX_BETWEEN]:
        if events.bound_between(call, write, name):
            break
        if not exclude(module, call, write) and not events.waits_between(call, write, ""):
            return _write_hit(call, name, write)
    for loop in loops_around(module, call):
        if name in bound_in(loop) or events.waits_in(loop):
            break
        for write in writes[:MAX_BETWEEN]:
            if loop in loops_around(module, write) and not exclude(module, call, write):
                return _write_hit(call, name, write)
    return None


def _source(call: ast.Call) -> ast.expr | None:
    """Return the buffer that is copied from, a part of it counts as the whole."""
    if not isinstance(call.func, ast.Attribute):
        return None
    node: ast.expr
    if call.func.attr == "copy_":
        if not call.args:
            return None
        node = call.args[0]
    elif call.func.attr in ("to", "cuda"):
        node = call.func.value
    else:
        return None
    return base_of(node)


def _is_pinned(module: Module, node: ast.expr) -> bool:
    made = module.definitions(node)
    return bool(made) and all(_makes_pinned(module, each) for each in made)


def _makes_pinned(module: Module, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "pin_memory":
        return True
    return module.resolve(node.func) in _PINNED and any(
        keyword.arg == "pin_memory" and module.constants(keyword.value).surely(value=True)
        for keyword in node.keywords
    )


def _write_hit(call: ast.Call, name: str, write: ast.AST) -> Hit:
    line = getattr(write, "lineno", call.lineno)
    return Hit(
        rule=RULE_ID,
        node=call,
        message=(
            f"the pinned buffer `{name}` is copied with non_blocking=True and written again "
            f"(line {line}) before anything waits for the copy: another batch may arrive than "
            "was sent"
        ),
        evidence={"tensor": name, "copy_line": call.lineno, "write_line": line},
        remedy=(
            f"Record an event after the copy and wait for it before `{name}` is written again, or "
            "take several buffers in turn."
        ),
    )
