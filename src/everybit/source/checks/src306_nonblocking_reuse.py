"""SRC306: memory used while a `non_blocking=True` copy of it may still run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import (
    Loop,
    bodies,
    bound_in,
    calls_in,
    end,
    exclude,
    inside,
    last_word,
    loops_around,
    place,
    precedes,
    written,
)
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC306"
WORDS: Final = ("non_blocking",)
#: Calls that wait for the device, or may.
_WAITS: Final = frozenset(
    {"synchronize", "wait", "item", "tolist", "cpu", "query", "result", "join", "barrier", "get"}
)
#: Methods that read the values of a tensor in CPU memory.
_READS: Final = frozenset(
    {
        "numpy", "item", "tolist", "argmax", "argmin", "sum", "mean", "max", "min", "std", "var",
        "norm", "float", "double", "int", "long", "half", "bool", "clone", "any", "all", "topk",
        "softmax", "sigmoid", "exp", "log", "abs", "round", "sort", "argsort", "nonzero", "unique",
        "count_nonzero", "allclose", "equal", "cumsum", "add", "sub", "mul", "div", "__array__",
    }
)  # fmt: skip
#: Functions that read the values of what they are given.
_READERS: Final = frozenset(
    {
        "print", "float", "int", "bool", "str", "repr", "numpy.array", "numpy.asarray",
        "numpy.save", "numpy.concatenate", "torch.save", "pickle.dump", "pickle.dumps",
        "safetensors.torch.save", "safetensors.torch.save_file", "torchvision.utils.save_image",
        "torchvision.transforms.functional.to_pil_image",
    }
)  # fmt: skip
_VIEWS: Final = frozenset({"detach", "view", "reshape", "squeeze", "unsqueeze", "flatten", "t"})
_PINNED: Final = frozenset(
    f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "empty_like")
)


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each asynchronous copy whose memory is used too early."""
    for body in bodies(module):
        calls = [call for call in calls_in([body]) if _is_async(call)]
        for call in calls:
            hit = _judge_read(module, body, call) or _judge_write(module, body, call)
            if hit is not None:
                yield hit


def _is_async(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cpu", "cuda", "copy_")
        and any(
            keyword.arg == "non_blocking"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True
            for keyword in call.keywords
        )
    )


# ---- a copy to the CPU that is read ------------------------------------------------------------


def _judge_read(module: Module, body: ast.AST, call: ast.Call) -> Hit | None:
    if not _to_cpu(module, call):
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    copied = written(owner) or module.source(owner)
    copied = copied if len(copied) <= 60 else "a tensor"
    whole, read = _outermost_view(module, call)
    if read is not None:
        return _read_hit(call, copied, read, call.lineno)
    statement = module.parents.get(whole)
    if isinstance(statement, ast.DictComp | ast.ListComp) and whole is not None:
        whole = statement
        statement = module.parents.get(whole)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = written(statement.targets[0])
    if name is None:
        return None
    for node in sorted(inside([body]), key=place):
        if end(statement) > place(node) or exclude(module, statement, node):
            continue
        if isinstance(node, ast.Call) and _stops(module, node, name):
            return None
        if isinstance(node, ast.Assign) and any(
            written(each) == name for target in node.targets for each in ast.walk(target)
        ):
            return None
        how = _reads(module, node, name)
        if how is not None:
            return _read_hit(call, name, how, getattr(node, "lineno", call.lineno))
    return None


def _to_cpu(module: Module, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "cpu":
        return True
    if call.func.attr != "to":
        return False
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    return any(_is_cpu(module, each) for each in given)


def _is_cpu(module: Module, node: ast.expr) -> bool:
    for each in module.definitions(node) or (node,):
        if isinstance(each, ast.Constant):
            if each.value != "cpu":
                return False
        elif isinstance(each, ast.Call) and module.resolve(each.func) == "torch.device":
            if not each.args or not module.constants(each.args[0]).surely("cpu"):
                return False
        else:
            return False
    return True


def _outermost_view(module: Module, call: ast.Call) -> tuple[ast.expr, str | None]:
    """Return the expression that a copy ends in, and the read it is part of, if any."""
    node: ast.expr = call
    while True:
        parent = module.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.value is node:
            around = module.parents.get(parent)
            if not isinstance(around, ast.Call) or around.func is not parent:
                return node, None
            if parent.attr in _READS:
                return node, f".{parent.attr}()"
            if parent.attr not in _VIEWS:
                return node, None
            node = around
            continue
        if isinstance(parent, ast.Call) and node in parent.args:
            name = module.resolve(parent.func)
            return node, f"{name}()" if name in _READERS else None
        return node, None


def _stops(module: Module, node: ast.Call, name: str) -> bool:
    """Whether a call waits for the device: a blocking copy to the CPU waits too."""
    if isinstance(node.func, ast.Attribute) and written(node.func.value) == name:
        return False  # the read itself: `copy.item()` waits for nothing
    return _waits(node) or (_to_cpu(module, node) and not _is_async(node))


def _reads(module: Module, node: ast.AST, name: str) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(attr=attr, value=owner)) if attr in _READS:
            return f"{name}.{attr}()" if written(owner) == name else None
        case ast.Call(func=func, args=args) if any(written(arg) == name for arg in args):
            resolved = module.resolve(func)
            return f"{resolved}({name})" if resolved in _READERS else None
        case ast.FormattedValue(value=value):
            return "an f-string" if written(value) == name else None
        case _:
            return None


def _waits(call: ast.Call) -> bool:
    word = last_word(call.func)
    return word in _WAITS or "sync" in word.lower()


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


def _judge_write(module: Module, body: ast.AST, call: ast.Call) -> Hit | None:
    buffer = _source(call)
    name = written(buffer) if buffer is not None else None
    if buffer is None or name is None or not _is_pinned(module, buffer):
        return None
    nodes = list(inside([body]))
    writes = [node for node in nodes if node is not call and _writes(node, name)]
    for write in writes:
        between = (nodes, end(call), place(write))
        if precedes(module, call, write) and not _waited(*between):
            if _made_between(name, *between):
                break
            return _write_hit(call, name, write)
    for loop in loops_around(module, call):
        if name in bound_in(loop) or _waited_in(loop):
            break
        for write in writes:
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
    return _base(node)


def _base(node: ast.expr) -> ast.expr:
    while True:
        match node:
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in _VIEWS:
                node = value
            case _:
                return node


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


def _writes(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(
                isinstance(each, ast.Subscript) and written(_base(_array(each))) == name
                for each in targets
            )
        case ast.AugAssign(target=target):
            return written(_base(target)) == name
        case ast.Call(func=ast.Attribute(attr=attr, value=owner), keywords=keywords):
            if attr.endswith("_") and not attr.startswith("_") and attr != "requires_grad_":
                return written(_base(owner)) == name
            return any(k.arg == "out" and written(_base(k.value)) == name for k in keywords)
        case _:
            return False


def _array(node: ast.expr) -> ast.expr:
    """Return the tensor behind `tensor.numpy()[...]`."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        return inner.func.value if inner.func.attr == "numpy" else inner
    return inner


def _waited(nodes: list[ast.AST], start: tuple[int, int], stop: tuple[int, int]) -> bool:
    return any(
        isinstance(node, ast.Call) and start <= place(node) < stop and _waits(node)
        for node in nodes
    )


def _waited_in(loop: Loop) -> bool:
    return any(_waits(call) for call in calls_in([loop], nested=True))


def _made_between(
    name: str, nodes: list[ast.AST], start: tuple[int, int], stop: tuple[int, int]
) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and start <= place(node) < stop
        and any(written(target) == name for target in node.targets)
        for node in nodes
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
