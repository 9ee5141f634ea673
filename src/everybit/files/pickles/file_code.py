"""Code that a pickle carries in itself, as cloudpickle and dill write it, and whether it runs.

They build functions and classes out of code objects in the file. Building runs nothing yet. It runs
where such a function is called, is handed to something that calls it, or is a method that
unpickling itself calls on an instance (`__setstate__`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.constants import as_string
from everybit.files.pickles.naming import Named, passes_on
from everybit.files.pickles.nodes import Call, CallKind, DictNode, TupleNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.pickles.naming import Names
    from everybit.files.pickles.nodes import Node, Pickle

_CLOUDPICKLE: Final = ("cloudpickle.cloudpickle", "cloudpickle.cloudpickle_fast", "cloudpickle")
_DILL: Final = ("dill._dill", "dill.dill", "dill")


def _of(modules: tuple[str, ...], *names: str) -> set[str]:
    return {f"{module}.{name}" for module in modules for name in names}


#: Calls that give a function whose code is in the file.
FUNCTION_BUILDERS: Final = frozenset(
    _of(_CLOUDPICKLE, "_make_function", "_make_skel_func", "_fill_function")
    | _of(_DILL, "_create_function")
    | {"types.FunctionType", "types.LambdaType", "types.MethodType"}
)
#: Calls that give a class made in the file.
CLASS_BUILDERS: Final = frozenset(
    _of(_CLOUDPICKLE, "_make_skeleton_class", "_make_skeleton_enum", "_rehydrate_skeleton_class")
    | _of(_DILL, "_create_type")
    | {"types.new_class", "builtins.type"}
)
_SETTERS: Final = frozenset(_of(_CLOUDPICKLE, "_class_setstate", "_rehydrate_skeleton_class"))
_APPLIERS: Final = frozenset({
    "builtins.map", "builtins.filter", "functools.reduce", "_functools.reduce", "builtins.sorted",
    "itertools.starmap", "itertools.takewhile", "itertools.dropwhile", "itertools.filterfalse",
    "itertools.groupby", "itertools.accumulate", "builtins.iter", "builtins.max", "builtins.min",
    "operator.call", "_operator.call", "threading.Thread", "threading.Timer", "atexit.register",
    "builtins.property.fget", "weakref.finalize", "signal.signal",
})  # fmt: skip
_WATCHED: Final = CLASS_BUILDERS | _SETTERS | _APPLIERS
_ALWAYS: Final = frozenset({"__new__", "__getattribute__"})


#: What holds a function from the file, as what it is told.
_KEPT: Final = Named("types", "FunctionType()")
#: Attributes that opcodes call on any object: where items are added to it, or a state is set.
_BY_STATE: Final = frozenset({"__setstate__"})
_BY_OPCODES: Final = frozenset({"append", "extend", "add", "__setstate__"})
#: Harmless functions that call methods of what they are given, or it itself.
_CALLERS: Final = frozenset({
    "builtins.dict", "collections.OrderedDict", "collections.Counter", "collections.UserDict",
    "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "torch.nn.Parameter",
    "torch.optim.swa_utils.AveragedModel", "numpy.random._pickle.__generator_ctor",
    "numpy.random._pickle.__bit_generator_ctor", "copyreg.__newobj__",
})  # fmt: skip


def _is_built(node: Node) -> bool:
    """Return whether a value is a function from the file, or a `partial` of one."""
    if not isinstance(node, Call):
        return False
    if node.name in ("functools.partial", "_functools.partial"):
        return any(
            isinstance(arg, Call) and arg.name in FUNCTION_BUILDERS for arg in node.arguments
        )
    return node.name in FUNCTION_BUILDERS


def is_plain(name: str) -> bool:
    """Return whether all calls of a name mean the same: a new result."""
    return name not in _WATCHED and not passes_on(name)


class _FileClass:
    """A class made in the file: its methods from the file, and its instances."""

    __slots__ = ("instances", "methods", "named")

    def __init__(self, named: Named) -> None:
        self.named = named
        self.methods: set[str] = set()
        self.instances: list[Call] = []


class FileCode:
    """The functions and classes that one pickle builds from its own code.

    Args:
        names: The names of the pickle's nodes; a call has to be named before it is added.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.classes: dict[int, _FileClass] = {}
        self.applied: list[tuple[Named, int]] = []

    def add(self, call: Call, function: Named) -> None:
        """Take in the next call, whose function has this name."""
        name = function.qualified
        if name in CLASS_BUILDERS:
            made = self.classes[id(call)] = _FileClass(self.names.of(call))
            for arg in call.arguments:
                self._methods(made, arg)
        args = call.arguments
        first = args[0] if args else None
        if name in _SETTERS and id(first) in self.classes:
            for arg in args[1:]:
                self._methods(self.classes[id(first)], arg)
        for maker in (call.function, first if name.startswith("copyreg.") else None):
            if id(maker) in self.classes and isinstance(maker, Call):
                self.classes[id(maker)].instances.append(call)
        if name in _APPLIERS:
            self.applied += [
                (self.names.of(arg), call.position) for arg in args if self._is_function(arg)
            ]

    def runs(self) -> Iterator[tuple[Named, int]]:
        """Yield what runs without being called by name: its name and an offset."""
        yield from self.applied
        for made in self.classes.values():
            for instance in made.instances:
                for method in sorted(made.methods & _hooks(instance)):
                    yield made.named.attribute(method), instance.position

    def find_kept(self, pickle: Pickle) -> None:
        """Note functions from the file that an object holds where loading calls them by name."""
        holders: set[int] = set()
        for target, state in pickle.builds:
            keys = self._methods_kept(state) if isinstance(target, Call) else set()
            if keys:
                holders.add(id(target))
                named = _BY_OPCODES if target.items else _BY_STATE
                self.applied += [(_KEPT, target.position) for _ in keys & named]
        for call in pickle.calls:
            if call.name in _CALLERS or call.name.startswith("torch._utils._rebuild_"):
                given = [arg for arg in call.arguments if id(arg) in holders or _is_built(arg)]
                self.applied += [(_KEPT, call.position) for _ in given]

    def _methods_kept(self, state: Node) -> set[str]:
        parts = state.items[:2] if isinstance(state, TupleNode) else [state]
        return {
            as_string(key) or ""
            for part in parts
            if isinstance(part, DictNode)
            for key, value in part.pairs
            if _is_built(value)
        }

    def _is_function(self, node: Node) -> bool:
        name = self.names.of(node).qualified
        return name.endswith("()") and name.removesuffix("()") in FUNCTION_BUILDERS

    def _methods(self, made: _FileClass, node: Node) -> None:
        held = [node, *node.items] if isinstance(node, TupleNode) else [node]
        for part in held:
            if isinstance(part, DictNode):
                made.methods |= {
                    as_string(key) or "" for key, value in part.pairs if isinstance(value, Call)
                }


def _hooks(instance: Call) -> frozenset[str]:
    """Return the methods that unpickling calls on an instance."""
    hooks = set(_ALWAYS)
    if instance.state is not None:
        hooks.add("__setstate__")
    if instance.items:
        hooks |= {"append", "extend", "add"}
    if instance.pairs:
        hooks.add("__setitem__")
    if instance.kind in (CallKind.REDUCE, CallKind.INST, CallKind.OBJ):
        hooks.add("__init__")
    return frozenset(hooks)
