"""Objects as their pickles make them: what makes each, what it is given, what it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.files.converting.tensors import TENSORS, extras_of
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    DictNode,
    Global,
    ListNode,
    Node,
    Persistent,
    SetNode,
    TupleNode,
)
from everybit.files.pickles.torch_values import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Modules by the names of Python 2 and of NumPy 1, and by those of today.
_PYTHON_2: Final = {"xrange": "range", "unicode": "str", "long": "int"}
_RENAMED: Final = {
    "copy_reg": "copyreg",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}
_SPARSE: Final = {
    "sparse_coo": ("indices", "values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
_NESTED: Final = ("buffer", "sizes", "strides", "offsets")
#: Calls whose first argument goes by the object's own path.
_WRAPPERS: Final = frozenset(
    {
        "torch._utils:_rebuild_parameter",
        "torch._utils:_rebuild_parameter_with_state",
        "torch._utils:_rebuild_device_tensor_from_cpu_tensor",
        "torch.nn.parameter:Parameter",
        "torch.nn.parameter:Buffer",
    }
)
_BY_TYPE: Final = frozenset(
    {"torch._tensor:_rebuild_from_type_v2", "torch._tensor:_rebuild_from_type"}
)


@dataclass(slots=True, kw_only=True)
class Content:
    """What a call makes.

    Attributes:
        maker: What is called, or the class of what is made.
        args: Its positional arguments.
        places: What each is called below the object's path; "" for the path itself, None for
            their numbers.
        other_args: What stands in the place of the arguments, where that is no tuple.
        spread: What the items of the last argument, a tuple, are called below the object's path.
        mark: The sidecar's mark of a container that the call stands for; "" for others.
        items: What is in that container.
        pairs: The pairs in it.
        data: The bytes that the call stands for.
        mutable: These are a bytearray.
        tensor: Rebuild function and arguments of the tensor that is made one of a subclass.
    """

    maker: Node
    args: list[Node] = field(default_factory=list)
    places: list[str] | None = None
    other_args: Node = None
    spread: tuple[str, ...] = ()
    mark: str = ""
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    data: bytes | None = None
    mutable: bool = False
    tensor: tuple[str, list[Node]] | None = None


def module_name(node: Global) -> str:
    """Return a name as the sidecar writes it: `module:qualified.name`."""
    if node.module == "__builtin__":
        return f"builtins:{_PYTHON_2.get(node.name, node.name)}"
    return f"{_RENAMED.get(node.module, node.module)}:{node.name}"


def content_of(call: Call) -> Content:
    """Return what a call makes, from its name and its arguments."""
    found = Content(maker=_class_of(call.function))
    if isinstance(call.args, TupleNode):
        found.args = call.args.items
    else:
        found.other_args = call.args
    if not isinstance(found.maker, Global) or found.other_args is not None or call.kwargs:
        return found
    name = module_name(found.maker)
    if call.state is None and not call.items and not call.pairs:
        _as_value(name, found)
    if name == "collections:OrderedDict" and not call.items:
        pairs = _pairs_of(found.args)
        if pairs is not None:
            found.mark, found.pairs = "$ordered", [*pairs, *call.pairs]
    elif name == "copyreg:_reconstructor":
        _as_plain_object(found)
    elif name in _WRAPPERS:
        found.places = ["", *(str(n) for n in range(1, len(found.args)))]
    elif name == "torch._utils:_rebuild_nested_tensor":
        found.places = [*_NESTED, *(str(n) for n in range(len(_NESTED), len(found.args)))]
    elif name == "torch._utils:_rebuild_sparse_tensor":
        if len(found.args) == 2 and isinstance(found.args[1], TupleNode):
            names = _sparse_names(found.args[0])
            found.spread = (*names, *(str(n) for n in range(len(names), 8)))
    elif name in _BY_TYPE and len(found.args) == 4:
        function, _, args, _ = found.args
        known = isinstance(function, Global) and function.qualified in TENSORS
        if known and isinstance(args, TupleNode):
            found.tensor = (function.qualified, args.items)
    return found


def _class_of(maker: Node) -> Node:
    """Return a class of modules that formats before 1.6 keep with its source, as its name."""
    parts = maker.id.items if isinstance(maker, Persistent) and _is_class(maker.id) else []
    return parts[1] if parts else maker


def _is_class(node: Node) -> bool:
    return (
        isinstance(node, TupleNode) and len(node.items) > 1 and as_text(node.items[0]) == "module"
    )


def children(node: Node) -> Iterable[Node]:
    """Return what a container or an object holds, as the tree mentions it."""
    if isinstance(node, DictNode):
        return [part for pair in node.pairs for part in pair]
    if not isinstance(node, Call):
        return node.items if isinstance(node, ListNode | TupleNode | SetNode) else ()
    if node.name in TENSORS:
        return [*extras_of(node.name, node.arguments), node.state]
    found = content_of(node)
    if found.data is not None:
        return ()
    if found.mark:
        return [*found.items, *(part for pair in found.pairs for part in pair), node.state]
    if found.tensor is not None:
        return [found.args[1], *extras_of(*found.tensor), found.args[3], node.state]
    held = [found.maker, *found.args, found.other_args, node.kwargs, node.state, *node.items]
    if found.spread:
        held += found.args[1].items
    return [*held, *(part for pair in node.pairs for part in pair)]


def _as_value(name: str, found: Content) -> None:
    """Note where a call stands for a plain value of the language."""
    args = found.args
    if name in ("builtins:set", "builtins:frozenset"):
        if not args or (len(args) == 1 and isinstance(args[0], ListNode | TupleNode)):
            found.mark = "$set" if name == "builtins:set" else "$frozenset"
            found.items = args[0].items if args else []
    elif name == "builtins:complex":
        if len(args) == 2 and all(type(part) in (float, int) for part in args):
            found.mark, found.items = "$complex", [float(part) for part in args]
    elif name in ("builtins:bytes", "builtins:bytearray"):
        if not args:
            found.data = b""
        elif len(args) == 1:
            found.data = _bytes_of(args[0])
        elif args[1] == "latin-1" or args[1] == "latin1":
            found.data = _encoded(args[0])
        found.mutable = name == "builtins:bytearray"
    elif name == "_codecs:encode" and len(args) == 2 and args[1] in ("latin1", "latin-1"):
        found.data = _encoded(args[0])


def _bytes_of(node: Node) -> bytes | None:
    if isinstance(node, Blob):
        return node.data
    if isinstance(node, Call) and node.name == "_codecs.encode" and node.arguments:
        return _encoded(node.arguments[0])
    return None


def _encoded(text: Node) -> bytes | None:
    """Return 8-bit text as bytes, the way protocol 2 writes bytes."""
    try:
        return text.encode("latin-1") if isinstance(text, str) else None
    except UnicodeEncodeError:
        return None


def _pairs_of(args: list[Node]) -> list[tuple[Node, Node]] | None:
    """Return the pairs that an OrderedDict is made of; None where they are none."""
    if not args:
        return []
    if len(args) != 1 or not isinstance(args[0], ListNode | TupleNode):
        return None
    pairs = []
    for pair in args[0].items:
        if not isinstance(pair, ListNode | TupleNode) or len(pair.items) != 2:
            return None
        pairs.append((pair.items[0], pair.items[1]))
    return pairs


def _as_plain_object(found: Content) -> None:
    """Take the detour of protocols 0 and 1 to an object of a plain class out."""
    args = found.args
    if len(args) != 3 or not isinstance(args[0], Global) or not isinstance(args[1], Global):
        return
    if module_name(args[1]) == "builtins:object" and args[2] is None:
        found.maker, found.args = args[0], []


def _sparse_names(layout: Node) -> tuple[str, ...]:
    known = ""
    if isinstance(layout, Call) and layout.arguments and isinstance(layout.arguments[0], str):
        known = layout.arguments[0]
    elif isinstance(layout, Global):
        known = layout.name
    return _SPARSE.get(known.rpartition(".")[2], ())
