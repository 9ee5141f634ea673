"""From what a torch pickle says to descriptions of tensors: rebuild calls, storages, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import xxhash

from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.nodes import (
    Call,
    DictNode,
    Global,
    ListNode,
    Node,
    Persistent,
    Pickle,
    SetNode,
    Text,
    TupleNode,
)
from everybit.files.pickles.torch_values import (
    NOT_NUMBERS,
    OddError,
    TensorSpec,
    as_text,
    describe_array,
    describe_buffer_array,
    describe_storage,
    describe_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_PARAMETERS: Final = {
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
}
_BY_TYPE: Final = {"torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type"}
_TENSORS: Final = {
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_qtensor",
}
#: Calls made of several tensors, and what these are called below the call's own name.
_PARTS: Final = {
    "torch._utils._rebuild_nested_tensor": ("buffer", "sizes", "strides", "offsets"),
}
_SPARSE: Final = {
    "sparse_coo": ("indices", "values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}

#: Containers nested deeper than this are not followed.
MAX_DEPTH: Final = 1000
_MAX_NAME: Final = 1024


_CONTAINERS: Final = (Call, DictNode, ListNode, TupleNode, SetNode, Persistent)


class _Path:
    """A key below another path. Its name is joined only for tensors, and once."""

    __slots__ = ("_name", "above", "key")

    def __init__(self, above: _Path | None, key: str) -> None:
        self.above = above
        self.key = key
        self._name: str | None = None

    def name(self) -> str:
        """Return the dotted name, at most `_MAX_NAME` long: beyond that a digest stands for it."""
        open_paths: list[_Path] = []
        path: _Path | None = self
        while path is not None and path._name is None:
            open_paths.append(path)
            path = path.above
        joined = path._name if path is not None else None
        for path in reversed(open_paths):
            joined = _shorten(path.key if joined is None else f"{joined}.{path.key}")
            path._name = joined
        return joined or ""


def _shorten(name: str) -> str:
    if len(name) <= _MAX_NAME:
        return name
    tail = xxhash.xxh3_64_hexdigest(name.encode("utf-8", "surrogatepass"))
    return f"{name[: _MAX_NAME // 2]}~{tail}"


def describe_outside(node: Persistent) -> TensorSpec | None:
    """Describe what a persistent id of the formats since torch 0.2 stands for: a storage."""
    parts = node.id.items if isinstance(node.id, TupleNode) else []
    if parts and as_text(parts[0]) == "module":
        # A class of modules, with its source code.
        return None
    storage = describe_storage(node)
    size = STORED_ITEMSIZE[storage.dtype]
    first, count = storage.view or (0, storage.num_bytes // size)
    return TensorSpec(
        name="", dtype=storage.dtype, shape=(count,), stride=(1,), offset=first, storage=storage
    )


def find_tensors(
    pickle: Pickle, outside: Callable[[Persistent], TensorSpec | None] = describe_outside
) -> tuple[list[TensorSpec], list[str]]:
    """Walk the pickle's result; return its tensors in order, and notes on what was not followed.

    An object reached by two keys has two names. Walking takes time linear in the pickle, however
    its containers share each other: once the budget for second visits is used up, containers are
    visited once.

    Args:
        pickle: The pickle.
        outside: Describes what a persistent id stands for; None where that is no tensor.
    """
    return _Walk(pickle, outside).run()


class _Walk:
    def __init__(self, pickle: Pickle, outside: Callable[[Persistent], TensorSpec | None]) -> None:
        self.pickle = pickle
        self.outside = outside
        self.specs: list[TensorSpec] = []
        self.names: dict[str, int] = {}
        self.notes: list[str] = []
        self.seen: set[int] = set()
        self.open: set[int] = set()
        self.budget = 20_000 + 4 * pickle.num_nodes

    def run(self) -> tuple[list[TensorSpec], list[str]]:
        # Entries: (node, path, depth), or (node, None, -1) to leave a container.
        todo: list[tuple[Node, _Path | None, int]] = [(self.pickle.result, None, 0)]
        while todo:
            node, path, depth = todo.pop()
            if depth < 0:
                self.open.discard(id(node))
                continue
            children = self.enter(node, path, depth)
            if children:
                self.open.add(id(node))
                todo.append((node, None, -1))
                todo.extend(
                    (child, place, depth + 1)
                    for child, place in reversed(children)
                    if isinstance(child, _CONTAINERS)
                )
        return self.specs, self.notes

    def enter(self, node: Node, path: _Path | None, depth: int) -> list[tuple[Node, _Path | None]]:
        if not isinstance(node, _CONTAINERS) or id(node) in self.open:
            return []
        if id(node) in self.seen:
            self.budget -= _num_parts(node)
            if self.budget <= 0:
                self.note("containers share each other so often that some names were left out")
                return []
        self.seen.add(id(node))
        if depth > MAX_DEPTH:
            self.note(f"containers nested more than {MAX_DEPTH} deep were not followed")
            return []
        if isinstance(node, Persistent):
            self.emit(path, lambda: self.outside(node))
            return []
        if isinstance(node, Call):
            return self.enter_call(node, path)
        if isinstance(node, DictNode):
            return _keyed(node.pairs, path)
        return [(item, _Path(path, str(index))) for index, item in enumerate(node.items)]

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def enter_call(self, call: Call, path: _Path | None) -> list[tuple[Node, _Path | None]]:
        name, args = call.name, call.arguments
        if name in _PARAMETERS and args:
            return [(args[0], path), *((extra, path) for extra in args[3:])]
        if name in _BY_TYPE and len(args) == 4:
            inner = Call(call.kind, args[0], args[2], None, call.position)
            return [(inner, path), (args[3], path)]
        if name in _TENSORS:
            self.emit(path, lambda: describe_tensor(args, name))
            quantizer = args[4] if name.endswith("qtensor") and len(args) > 4 else None
            return _quantizer_parts(quantizer, path) + _state(call, path)
        if name == "torch._utils._rebuild_sparse_tensor" and len(args) == 2:
            return _sparse_parts(args, path)
        if name in _PARTS:
            return [(arg, _Path(path, key)) for key, arg in zip(_PARTS[name], args, strict=False)]
        if name.endswith(".multiarray._reconstruct"):
            self.emit(path, lambda: describe_array(call))
            return []
        if name.endswith(".numeric._frombuffer"):
            self.emit(path, lambda: describe_buffer_array(call))
            return []
        return _call_children(call, path)

    def emit(self, path: _Path | None, describe: Callable[[], TensorSpec | None]) -> None:
        name = (path.name() if path is not None else "") or "tensor"
        try:
            spec = describe()
        except OddError as odd:
            spec = None if str(odd) == NOT_NUMBERS else TensorSpec(name=name, problem=str(odd))
        if spec is not None:
            values = {f: getattr(spec, f) for f in TensorSpec.__slots__}
            self.specs.append(TensorSpec(**{**values, "name": self.unique(name)}))

    def unique(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        if not count:
            return name
        return self.unique(f"{name}#{count}")


def _num_parts(node: Node) -> int:
    if isinstance(node, DictNode):
        return 1 + len(node.pairs)
    if isinstance(node, Call):
        return 1 + len(node.arguments) + len(node.items) + len(node.pairs)
    return 1 if isinstance(node, Persistent) else 1 + len(node.items)


def _key(key: Node, index: int) -> str:
    if isinstance(key, str):
        return _shorten(key)
    if isinstance(key, Text):
        return _shorten(key.data.decode("utf-8", "replace"))
    if isinstance(key, int) and key.bit_length() > 64:
        return f"({index})"
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    if isinstance(key, TupleNode) and all(isinstance(item, (str, int)) for item in key.items[:8]):
        return "(" + ",".join(_key(item, index) for item in key.items[:8]) + ")"
    return f"({index})"


def _keyed(pairs: list[tuple[Node, Node]], path: _Path | None) -> list[tuple[Node, _Path | None]]:
    # A later value of an equal key replaces the earlier one, as it does in the loaded object.
    children: dict[Any, tuple[Node, _Path | None]] = {}
    for index, (key, value) in enumerate(pairs):
        place = _Path(path, _key(key, index))
        plain = key is None or isinstance(key, (bool, int, float, str))
        children[key if plain else id(key)] = (value, place)
    return list(children.values())


def _call_children(call: Call, path: _Path | None) -> list[tuple[Node, _Path | None]]:
    children: list[tuple[Node, _Path | None]] = []
    for index, arg in enumerate(call.arguments):
        if call.name == "collections.OrderedDict" and isinstance(arg, ListNode):
            pairs = [pair.items for pair in arg.items if isinstance(pair, (ListNode, TupleNode))]
            children += _keyed([(pair[0], pair[1]) for pair in pairs if len(pair) == 2], path)
        else:
            children.append((arg, _Path(path, str(index))))
    if isinstance(call.kwargs, DictNode):
        children += _keyed(call.kwargs.pairs, path)
    children += [(item, _Path(path, str(index))) for index, item in enumerate(call.items)]
    return children + _keyed(call.pairs, path) + _state(call, path)


def _state(call: Call, path: _Path | None) -> list[tuple[Node, _Path | None]]:
    if isinstance(call.state, TupleNode):  # (state, slots), as objects with __slots__ give it
        return [(part, path) for part in call.state.items]
    return [] if call.state is None else [(call.state, path)]


def _quantizer_parts(quantizer: Node, path: _Path | None) -> list[tuple[Node, _Path | None]]:
    if not isinstance(quantizer, TupleNode) or len(quantizer.items) < 3:
        return []
    return [
        (quantizer.items[1], _Path(path, "scales")),
        (quantizer.items[2], _Path(path, "zero_points")),
    ]


def _sparse_parts(args: list[Node], path: _Path | None) -> list[tuple[Node, _Path | None]]:
    layout, data = args
    known = ""
    if isinstance(layout, Call) and layout.arguments and isinstance(layout.arguments[0], str):
        known = layout.arguments[0]
    elif isinstance(layout, Global):
        known = layout.name
    keys = _SPARSE.get(known.rpartition(".")[2], ())
    if not isinstance(data, TupleNode):
        return []
    return [
        (item, _Path(path, keys[index] if index < len(keys) else str(index)))
        for index, item in enumerate(data.items)
    ]
