"""Names given to `safe_globals` and `add_safe_globals` that run code when a file calls them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.calls import CallSite
    from everybit.source.module import Module

ALLOWING: Final = frozenset(
    {
        "torch.serialization.add_safe_globals", "torch.serialization.safe_globals",
        "torch._weights_only_unpickler._add_safe_globals",
        "torch._weights_only_unpickler._safe_globals",
    }
)  # fmt: skip
_ASKING: Final = "torch.serialization.get_unsafe_globals_in_checkpoint"
#: Builtins that run code, reach any attribute, or open files.
_BUILTINS: Final = frozenset(
    {
        "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals",
        "input", "locals", "open", "setattr", "vars",
    }
)  # fmt: skip
#: Modules all of whose functions reach outside of the process, or run what they are given.
_MODULES: Final = (
    "os", "posix", "nt", "subprocess", "sys", "importlib", "pickle", "dill", "cloudpickle",
    "joblib", "marshal", "shutil", "socket", "ctypes", "runpy", "pty", "code", "codeop", "pdb",
    "bdb", "timeit", "webbrowser", "urllib", "requests", "http", "ftplib", "smtplib",
    "multiprocessing", "threading", "asyncio", "tempfile", "commands", "pydoc", "pip", "inspect",
    "gc", "types", "cProfile", "profile", "trace", "venv", "zipimport", "pkgutil", "imp",
    "torch.hub", "torch.utils.cpp_extension", "torch.jit", "torch.package",
)  # fmt: skip
_NAMES: Final = frozenset(
    {
        "torch.load", "torch.save", "numpy.load", "numpy.save", "operator.attrgetter",
        "operator.methodcaller", "functools.reduce", "io.open", "io.FileIO", "pathlib.Path.open",
        "builtins.open", "logging.config.fileConfig", "logging.config.dictConfig",
        "numpy.f2py.compile", "numpy.distutils.exec_command.exec_command",
    }
)  # fmt: skip
#: Of these modules, plain values that may be let through.
_HARMLESS: Final = frozenset(
    {
        "os.PathLike", "os.stat_result", "types.SimpleNamespace", "types.MappingProxyType",
        "sys.float_info", "inspect.Parameter",
    }
)  # fmt: skip
#: Functions that turn any name into what it names.
_FINDING: Final = frozenset(
    {"__import__", "eval", "getattr", "import_module", "locate", "resolve_name", "find_class"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def dangerous_names(site: CallSite) -> tuple[str, ...]:
    """Return the names of a list given to `safe_globals` that run code when called."""
    given = site.argument("safe_globals", position=0).node
    if given is None:
        return ()
    found: dict[str, None] = {}
    for each in _listed(site.module, given):
        for name in site.module.resolve_all(each):
            if _is_dangerous(name):
                found[name] = None
    return tuple(found)


def _listed(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    for value in dict.fromkeys((node, *module.definitions(node))):
        match value:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                for element in elements:
                    # `(function, "name in the file")` renames what is let through.
                    if isinstance(element, ast.Tuple) and element.elts:
                        yield element.elts[0]
                    elif isinstance(element, ast.Starred):
                        yield from _listed(module, element.value)
                    else:
                        yield element
            case ast.BinOp(left=left, right=right):
                yield from _listed(module, left)
                yield from _listed(module, right)
            case _:
                pass


def _is_dangerous(name: str) -> bool:
    if name in _BUILTINS or name in _NAMES:
        return True
    if name in _HARMLESS:
        return False
    return any(name.startswith(f"{module}.") for module in _MODULES)


def asks_the_file(site: CallSite) -> bool:
    """Return whether what is let through is what the file itself names."""
    module = site.module
    if "get_unsafe_globals_in_checkpoint" not in module.text:
        return False
    function = module.enclosing(site.node, *_FUNCTIONS) or module.tree
    asked = [
        call
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _ASKING in module.resolve_all(call.func)
    ]
    if not asked or not site.node.args:
        return False
    # A table of the project's own that the names are looked up in is a list of allowed ones: what
    # is let through must be what a call has made of the names.
    named = _derived(function, set(asked))
    made = {
        call
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _finds(call) and _comes(call, set(asked), named)
    }
    return bool(made) and _comes(site.node.args[0], made, _derived(function, made))


def _comes(node: ast.AST, calls: set[ast.Call], names: set[str]) -> bool:
    """Return whether a node holds one of these calls or names."""
    return any(
        each in calls or (isinstance(each, ast.Name) and each.id in names)
        for each in ast.walk(node)
    )


def _bound(target: ast.expr) -> set[str]:
    """Return the names that an assignment binds, and those of tables that it fills."""
    return {
        each.id
        for each in ast.walk(target)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    } | {
        each.value.id
        for each in ast.walk(target)
        if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name)
    }


def _finds(call: ast.Call) -> bool:
    """Return whether a call turns a name into whatever it names."""
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else ""
    return (func.id if isinstance(func, ast.Name) else name) in _FINDING


def _derived(function: ast.AST, asked: set[ast.Call]) -> set[str]:
    """Return the names of a function that hold something which came from these calls."""
    names: set[str] = set()
    for _ in range(4):
        before = len(names)
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=targets, value=value) if _comes(value, asked, names):
                    names.update(name for target in targets for name in _bound(target))
                case (
                    ast.For(target=target, iter=source)
                    | ast.comprehension(target=target, iter=source)
                ) if _comes(source, asked, names):
                    names.update(_bound(target))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "add"),
                    args=[value],
                ) if _comes(value, asked, names):
                    names.add(name)
                case _:
                    pass
        if len(names) == before:
            break
    return names
