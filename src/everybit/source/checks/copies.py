"""What happens to memory in a function: asynchronous copies, reads, writes, and waits."""

from __future__ import annotations

import ast
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import (
    Loop,
    calls_in,
    end,
    exclude,
    inside,
    last_word,
    place,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

Place = tuple[int, int]

#: Uses of one name, and waits between two of them, that are looked at.
MAX_BETWEEN: Final = 256
#: Calls that wait for the device, or may.
_WAITS: Final = frozenset(
    {"synchronize", "wait", "item", "tolist", "cpu", "query", "result", "join", "barrier", "get"}
)
#: Methods that read the values of a tensor in CPU memory.
READS: Final = frozenset(
    {
        "numpy", "item", "tolist", "argmax", "argmin", "sum", "mean", "max", "min", "std", "var",
        "norm", "float", "double", "int", "long", "half", "bool", "clone", "any", "all", "topk",
        "softmax", "sigmoid", "exp", "log", "abs", "round", "sort", "argsort", "nonzero", "unique",
        "count_nonzero", "allclose", "equal", "cumsum", "add", "sub", "mul", "div", "__array__",
    }
)  # fmt: skip
#: Functions that read the values of what they are given.
READERS: Final = frozenset(
    {
        "print", "float", "int", "bool", "str", "repr", "numpy.array", "numpy.asarray",
        "numpy.save", "numpy.concatenate", "torch.save", "pickle.dump", "pickle.dumps",
        "safetensors.torch.save", "safetensors.torch.save_file", "torchvision.utils.save_image",
        "torchvision.transforms.functional.to_pil_image",
    }
)  # fmt: skip
VIEWS: Final = frozenset({"detach", "view", "reshape", "squeeze", "unsqueeze", "flatten", "t"})


class Events:
    """What happens to memory in one function, in the order of the text.

    Args:
        module: The file.
        body: The function, or the module.
    """

    def __init__(self, module: Module, body: ast.AST) -> None:
        self.module = module
        self.reads: dict[str, list[tuple[ast.AST, str]]] = {}
        self.writes: dict[str, list[ast.AST]] = {}
        self.binds: dict[str, list[Place]] = {}
        self._waits: list[ast.Call] = []
        for node in inside([body]):
            for name, how in _reads(module, node):
                self.reads.setdefault(name, []).append((node, how))
            for name in _writes(node):
                self.writes.setdefault(name, []).append(node)
            if isinstance(node, ast.Assign):
                for part in (each for target in node.targets for each in ast.walk(target)):
                    if (bound := written(part)) is not None:
                        self.binds.setdefault(bound, []).append(place(node))
            if isinstance(node, ast.Call) and _stops(module, node):
                self._waits.append(node)
        for reads in self.reads.values():
            reads.sort(key=lambda each: place(each[0]))
        for writes in self.writes.values():
            writes.sort(key=place)
        for places in self.binds.values():
            places.sort()
        self._waits.sort(key=place)
        self._places = [place(node) for node in self._waits]
        self._waited: dict[Loop, bool] = {}

    def waits_between(self, start: ast.AST, stop: ast.AST, name: str) -> bool:
        """Whether something waits for the device between two nodes, reading `name` aside."""
        first = bisect_left(self._places, end(start))
        last = bisect_left(self._places, place(stop))
        if last - first > MAX_BETWEEN:
            return True
        return any(
            node is not stop
            and not (isinstance(node.func, ast.Attribute) and written(node.func.value) == name)
            and not exclude(self.module, start, node)
            for node in self._waits[first:last]
        )

    def bound_between(self, start: ast.AST, stop: ast.AST, name: str) -> bool:
        """Whether a name is bound anew between two nodes."""
        places = self.binds.get(name, [])
        return bisect_left(places, end(start)) < bisect_left(places, place(stop))

    def waits_in(self, loop: Loop) -> bool:
        """Whether something waits for the device in each round of a loop."""
        if loop not in self._waited:
            self._waited[loop] = any(_waits(call) for call in calls_in([loop], nested=True))
        return self._waited[loop]


def is_async(call: ast.Call) -> bool:
    """Return whether a call copies with `non_blocking=True`."""
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


def to_cpu(module: Module, call: ast.Call) -> bool:
    """Return whether a call copies a tensor to the CPU."""
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


def _stops(module: Module, node: ast.Call) -> bool:
    """Whether a call waits for the device: a blocking copy to the CPU waits too."""
    return _waits(node) or (to_cpu(module, node) and not is_async(node))


def _reads(module: Module, node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names whose values a node reads, and how."""
    match node:
        case ast.Call(func=ast.Attribute(attr=attr, value=owner)) if attr in READS and (
            name := written(owner)
        ):
            yield name, f"{name}.{attr}()"
        case ast.Call(func=func, args=args) if args:
            named = [name for arg in args if (name := written(arg)) is not None]
            if named and (resolved := module.resolve(func)) in READERS:
                yield from ((name, f"{resolved}({name})") for name in named)
        case ast.FormattedValue(value=value) if name := written(value):
            yield name, "an f-string"
        case _:
            return


def _waits(call: ast.Call) -> bool:
    word = last_word(call.func)
    return word in _WAITS or "sync" in word.lower()


def base_of(node: ast.expr) -> ast.expr:
    """Return the tensor that a part or view of it belongs to."""
    while True:
        match node:
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=ast.Attribute(attr=attr, value=value)) if attr in VIEWS:
                node = value
            case _:
                return node


def _writes(node: ast.AST) -> Iterator[str]:
    """Yield the names of tensors that a node writes into."""
    found: list[ast.expr] = []
    match node:
        case ast.Assign(targets=targets):
            found = [_array(each) for each in targets if isinstance(each, ast.Subscript)]
        case ast.AugAssign(target=target):
            found = [target]
        case ast.Call(func=ast.Attribute(attr=attr, value=owner), keywords=keywords):
            if attr.endswith("_") and not attr.startswith("_") and attr != "requires_grad_":
                found = [owner]
            else:
                found = [k.value for k in keywords if k.arg == "out"]
        case _:
            return
    yield from (name for each in found if (name := written(base_of(each))) is not None)


def _array(node: ast.expr) -> ast.expr:
    """Return the tensor behind `tensor.numpy()[...]`."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        return inner.func.value if inner.func.attr == "numpy" else inner
    return inner
