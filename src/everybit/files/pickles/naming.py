"""Which name of the running Python a node stands for, followed through calls that pass names on.

A pickle need not import `os.system` to reach it: `getattr(os, "system")`, `attrgetter`,
`import_module("os")`, `vars`, an item of a module's dictionary and a dotted STACK_GLOBAL name do as
well. Such calls are named by what they give; any other call is named by its function with `()`
behind it.
"""

from __future__ import annotations

import _compat_pickle
from typing import Final

from everybit.files.pickles.constants import UNKNOWN, as_string
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    DictNode,
    Extension,
    Global,
    ListNode,
    Node,
    Persistent,
    SetNode,
    Text,
    TupleNode,
)

_MAX_NAME: Final = 512
#: Calls handed on more often than this are not followed; no program does it.
_MAX_PASSED: Final = 20

_GETATTR: Final = {"builtins.getattr", "inspect.getattr_static", "builtins.object.__getattribute__"}
_UNBOUND: Final = (".__getattribute__", ".__getattr__")
_IMPORTS: Final = {
    "importlib.import_module", "builtins.__import__", "importlib.__import__",
    "importlib._bootstrap._gcd_import", "importlib._bootstrap.__import__",
    "pkgutil.resolve_name", "pydoc.locate", "pydoc.safeimport",
    "cloudpickle.cloudpickle.subimport", "cloudpickle.cloudpickle_fast.subimport",
    "dill._dill._import_module", "hydra.utils.get_method", "hydra.utils.get_class",
    "hydra.utils.get_object", "hydra._internal.utils._locate", "logging.config._resolve",
    "django.utils.module_loading.import_string", "werkzeug.utils.import_string",
    "numpy.distutils.misc_util.get_cmd", "unittest.mock._importer",
    "zope.dottedname.resolve.resolve",
    "twisted.python.reflect.namedAny", "torch._dynamo.utils.import_submodule",
    "xmlrpc.server.resolve_dotted_attribute",
}  # fmt: skip
_SAME: Final = {"builtins.vars", "copy.copy", "copy.deepcopy"}
_ITEM: Final = {"operator.getitem", "operator.__getitem__", "_operator.getitem"}
_ITEM_METHODS: Final = (".__getitem__", ".get", ".pop", ".setdefault")
_MAPPINGS: Final = {"builtins.dict", "collections.OrderedDict", "builtins.mappingproxy"}
_GETTERS: Final = (".attrgetter", ".itemgetter", ".methodcaller")
_PARTIAL: Final = {"functools.partial", "_functools.partial", "functools.partialmethod"}
_TYPES: Final = {
    "cloudpickle.cloudpickle._builtin_type",
    "cloudpickle.cloudpickle_fast._builtin_type",
    "dill._dill._load_type",
    "dill.dill._load_type",
}
#: They call their first argument with some of the others.
_APPLY: Final = {
    "copyreg.__newobj__",
    "copyreg._reconstructor",
    "copyreg.__newobj_ex__",
    "torch._tensor._rebuild_from_type_v2",
    "torch._tensor._rebuild_from_type",
    "joblib.parallel.BatchedCalls",
    "dill._dill._create_array",
    "operator.call",
    "_operator.call",
}


#: Calls that only pass a name on, or import one: they say nothing by themselves where all their
#: parts are constant, and the pickle itself calls them.
READERS: Final = frozenset({
    "builtins.getattr", "builtins.object.__getattribute__", "inspect.getattr_static",
    "operator.getitem", "_operator.getitem", "importlib.import_module", "builtins.__import__",
    "cloudpickle.cloudpickle.subimport", "cloudpickle.cloudpickle_fast.subimport",
    "operator.attrgetter", "_operator.attrgetter", "operator.itemgetter", "_operator.itemgetter",
})  # fmt: skip
_PASSING: Final = frozenset(
    _GETATTR | _IMPORTS | _SAME | _ITEM | _PARTIAL | _TYPES | _APPLY | {"builtins.vars"}
)
_PASSING_ENDS: Final = (*_UNBOUND, *_ITEM_METHODS, *_GETTERS, ".__new__")


def passes_on(qualified: str) -> bool:
    """Return whether calls of a function may stand for something else than a new result."""
    return qualified in _PASSING or qualified.endswith(_PASSING_ENDS)


class Named:
    """What a node stands for; never changed.

    Attributes:
        module: Module; "?" where it is computed.
        path: Dotted path in it, with `()` for the result of a call; "" for the module itself.
        keys: Attribute or item names that an `attrgetter`, `itemgetter` or `methodcaller` asks for.
        sure: Every part is constant.
        made: It is an object of its own that stands for the name when called (a `partial`).
        qualified: `module.path`.
    """

    __slots__ = ("keys", "made", "module", "path", "qualified", "sure")

    def __init__(
        self,
        module: str,
        path: str,
        keys: tuple[str, ...] = (),
        sure: bool = True,
        made: bool = False,
    ) -> None:
        self.module = module
        self.path = path
        self.keys = keys
        self.sure = sure
        self.made = made
        self.qualified = f"{module}.{path}" if path else module

    @property
    def is_result(self) -> bool:
        """Whether it is what a call returns, and not an object that exists by itself."""
        return self.made or self.path.endswith("()")

    def attribute(self, name: str | None) -> Named:
        """Return the named attribute of it; None where the name is computed."""
        part = UNKNOWN if name is None else name
        path = f"{self.path}.{part}" if self.path else part
        if len(path) > _MAX_NAME:
            return Named(self.module, f"{path[: _MAX_NAME - 8]}...{UNKNOWN}", sure=False)
        return Named(self.module, path, sure=self.sure and name is not None)

    def result(self) -> Named:
        """Return what a call of it gives."""
        if self.path.endswith("()()()"):
            return self
        return Named(self.module, f"{self.path}()"[:_MAX_NAME], self.keys, sure=self.sure)


NOWHERE: Final = Named(UNKNOWN, UNKNOWN, sure=False)


def name_global(node: Global) -> Named:
    """Return what a global stands for in Python 3: names of Python 2 are mapped as it does."""
    return name_written(node.module, node.name, node.legacy)


def name_written(module: str, name: str, legacy: bool) -> Named:
    """Return what a name stands for as a pickle writes it: `legacy` for a protocol below 3."""
    if legacy:
        if (module, name) in _compat_pickle.NAME_MAPPING:
            module, name = _compat_pickle.NAME_MAPPING[module, name]
        else:
            module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    return Named(module, name, sure=UNKNOWN not in (module, name))


def name_builtin(node: Node) -> Named:
    """Return the builtin class whose instance a plain node is."""
    for kinds, name in _BUILTINS:
        if isinstance(node, kinds):
            return Named("builtins", f"{name}()")
    return NOWHERE


_BUILTINS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    ((str, Text), "str"), (Blob, "bytes"), (ListNode, "list"), (TupleNode, "tuple"),
    (DictNode, "dict"), (SetNode, "set"), (bool, "bool"), (int, "int"), (float, "float"),
    (type(None), "NoneType"),
)  # fmt: skip


class Names:
    """Names of the nodes of one pickle; calls have to be named in the order in which they ran."""

    def __init__(self, calls: dict[int, Named] | None = None) -> None:
        self.calls: dict[int, Named] = {} if calls is None else calls
        self.partials: set[int] = set()
        self.extensions: dict[int, tuple[str, str]] = {}

    def of(self, node: Node) -> Named:
        """Return what a node stands for."""
        if isinstance(node, Global):
            return name_global(node)
        if isinstance(node, Call):
            return self.calls.get(id(node), NOWHERE)
        if isinstance(node, Extension):
            found = self.extensions.get(node.code)
            return Named(*found) if found else Named("copyreg", f"extension {node.code}")
        if isinstance(node, Persistent):
            return Named("persistent", "object()")
        return name_builtin(node)

    def add(self, call: Call) -> tuple[Named, Named]:
        """Name a call; return its function's name and its own."""
        function = self.of(call.function)
        bound, args = self._bound(call.function, _items(call.args))
        made = self._give(self.of(bound), args)
        self.calls[id(call)] = made
        if function.qualified in _PARTIAL:
            self.partials.add(id(call))
        return function, made

    def _bound(self, function: Node, args: list[Node]) -> tuple[Node, list[Node]]:
        """Return what a `partial` calls in the end, and all arguments that this gets."""
        for _ in range(_MAX_PASSED):
            if not isinstance(function, Call) or id(function) not in self.partials:
                break
            state = _items(function.state)  # (function, arguments, keywords, attributes)
            held = [state[0], *_items(state[1])] if len(state) > 1 else _items(function.args)
            if not held:
                break
            function, args = held[0], [*held[1:], *args]
        return function, args

    def _give(self, function: Named, args: list[Node], depth: int = 0) -> Named:
        """Return what a call gives."""
        name = function.qualified
        first = args[0] if args else None
        if name in _GETATTR or (name.endswith(_UNBOUND) and len(args) > 1):
            return self.attribute_of(first, args[1] if len(args) > 1 else None)
        if name.endswith(_UNBOUND) and args:
            owner = name.rpartition(".")[0]
            return _split(owner, function.module).attribute(as_string(first))
        if name in _IMPORTS:
            return _imported(name, args)
        if name in _SAME and args:
            return self.of(first)
        if name in _ITEM and len(args) > 1:
            return self.attribute_of(first, args[1])
        if name.endswith(_ITEM_METHODS) and args:
            return self._item(function, args)
        return self._pass_on(function, args, depth)

    def _pass_on(self, function: Named, args: list[Node], depth: int) -> Named:
        name = function.qualified
        first = args[0] if args else None
        if name in _PARTIAL and args:
            held = self.of(first)
            return Named(held.module, held.path, held.keys, held.sure, made=True)
        if name in _TYPES:
            text = as_string(first)
            return Named("types", text or UNKNOWN, sure=text is not None)
        if (name in _APPLY or name.endswith(".__new__")) and args:
            if depth > _MAX_PASSED:
                return NOWHERE
            inner, rest = self._bound(first, _handed_on(name, args))
            return self._give(self.of(inner), rest, depth + 1)
        if name.startswith(("operator.", "_operator.")) and name.endswith(_GETTERS):
            keys = tuple(_key(arg) for arg in args)
            return Named(function.module, f"{function.path}()", keys or (UNKNOWN,))
        if function.keys and args:
            found = self.attribute_of(first, function.keys[0])
            return found.result() if "methodcaller" in function.path else found
        return function.result()

    def attribute_of(self, owner: Node, name: Node) -> Named:
        """Return what an attribute or item of a node stands for."""
        return self.of(owner).attribute(_constant(name))

    def _item(self, function: Named, args: list[Node]) -> Named:
        owner, _, method = function.path.rpartition(".")
        held = Named(function.module, owner, sure=function.sure)
        unbound = method == "__getitem__" or held.qualified in _MAPPINGS  # dict.get(d, key)
        if unbound and len(args) > 1:
            return self.attribute_of(args[0], args[1])
        return held.attribute(as_string(args[0]))


def _items(node: Node) -> list[Node]:
    # Of a list nobody knows what it held at the time of the call; no pickler writes one there.
    return node.items if isinstance(node, TupleNode) else []


def _key(node: Node) -> str:
    """Return what a getter asks for; the number of an item in brackets."""
    return as_string(node) or (f"[{node}]" if type(node) is int else UNKNOWN)


def _constant(name: Node) -> str | None:
    """Return the text of an attribute's name; None where it is computed, or the number of one."""
    text = as_string(name)
    return None if text is None or text == UNKNOWN or text.startswith("[") else text


def _handed_on(name: str, args: list[Node]) -> list[Node]:
    """Return the arguments that a call hands on to its first one."""
    if name.startswith("torch._tensor._rebuild_from_type"):  # (function, type, arguments, state)
        return _items(args[2]) if len(args) > 2 else []
    if name == "copyreg._reconstructor":  # (class, base, state)
        return args[2:3]
    if name in ("copyreg.__newobj_ex__", "dill._dill._create_array"):  # (class, arguments, ...)
        return _items(args[1]) if len(args) > 1 else []
    return args[1:]


def _imported(name: str, args: list[Node]) -> Named:
    text = as_string(args[0]) if args else None
    if text is None:
        return Named(UNKNOWN, "", sure=False)
    module, _, path = text.partition(":")
    if name == "builtins.__import__" and len(args) < 4:
        module = module.partition(".")[0]  # without a list of names it gives the top package
    return Named(module[:_MAX_NAME], path[:_MAX_NAME])


def _split(qualified: str, module: str) -> Named:
    return Named(module, qualified[len(module) + 1 :])
