"""Functions that the pickle does not call: it hands them to harmless ones, which do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.assembling import Code, of, put, whole
from bench.scan_corpus.sample import CANARY, CODE, SHELL, UNKNOWN, ZEN, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_getattr: Final = of("builtins", "getattr")
_getitem: Final = of("operator", "getitem")
_import_module: Final = of("importlib", "import_module")
_partial: Final = of("functools", "partial")
_softmax: Final = of("torch.nn.functional", "softmax")
_attrgetter: Final = of("operator", "attrgetter")
_namespace: Final = of("argparse", "Namespace")
_relu: Final = of("torch.nn.functional", "relu")


def _with(**attributes: Any) -> Code:
    """A Namespace with these attributes."""
    return Code(_namespace().opcodes + put(attributes) + b"b")


def _applied(function: Code, value: Any) -> Code:
    """`function(value)` by way of torch: `softmax(x, y)` is `x.softmax(y)`."""
    return _softmax(_with(softmax=function), value)


def _globals_by_getters() -> Code:
    held = _applied(_attrgetter("__init__.__globals__"), _namespace)
    shell = _applied(_attrgetter("system"), _applied(of("operator", "itemgetter")("_os"), held))
    return _applied(shell, SHELL)


def _import_then_decoy() -> Code:
    """`import_module` is called once by the pickle, with a harmless name, and once by torch."""
    return Code(
        _applied(_import_module, "this").opcodes + b"0" + _import_module("builtins:object").opcodes
    )


def _rebuilt_afterwards() -> Code:
    """A `partial` that is called, and only then given the state that it seems to be called with."""
    harmless = (_getattr, (of("torch._C", "_VariableFunctionsClass"), "relu"), {}, None)

    def step(owner: Code, reader: Code, key: str, at: int) -> bytes:
        made = _partial(reader, owner, key).opcodes + b"q" + bytes([at])
        call = put(()) + b"Rq" + bytes([at + 1]) + b"0"
        return made + call + b"h" + bytes([at]) + put(harmless) + b"b0"

    code = step(_relu, _getattr, "__globals__", 0)
    code += step(Code(b"h\x01"), _getitem, "__builtins__", 2)
    code += step(Code(b"h\x03"), _getitem, "eval", 4)
    return Code(code + Code(b"h\x05")(CODE).opcodes)


def _memory() -> Code:
    """NumPy reads the memory that an attribute describes."""
    place = {"data": (4096, False), "shape": (1,), "typestr": "|u1", "version": 3}
    return of("numpy", "matrix")(_with(__array_interface__=place))


# name, code, proof, expected
_FILES: Final = (
    ("getters-by-softmax", _globals_by_getters(), CANARY, ("PKL201",)),
    ("import-by-softmax-and-decoy", _import_then_decoy(), ZEN, ("PKL201",)),
    ("partial-rebuilt-afterwards", _rebuilt_afterwards(), CANARY, ("PKL201",)),
    ("array-interface", _memory(), "", ("PKL201",)),
    ("softmax-of-a-method", _applied(of("builtins", "print"), CANARY), CANARY, UNKNOWN),
)


def samples() -> Iterator[Sample]:
    """One file for each."""
    for name, code, proof, expect in _FILES:
        yield Sample(
            name=f"handed-{name}.pkl",
            kind="allowed names only: called by others",
            source="own",
            write=write_bytes(whole(code)),
            expect=expect,
            loader="pickle" if proof else "",
            proof=proof or CANARY,
            needs="torch",
        )
