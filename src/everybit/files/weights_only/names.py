"""Names in torch's pickles: those of Python 2 as torch maps them, and the library behind a name."""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

_MODULES: Final = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "Queue": "queue",
    "repr": "reprlib",
    "_abcoll": "collections.abc",
    "UserDict": "collections",
    "UserList": "collections",
    "UserString": "collections",
    "whichdb": "dbm",
    "StringIO": "io",
    "cStringIO": "io",
}
_NAMES: Final = {
    ("__builtin__", "xrange"): ("builtins", "range"),
    ("__builtin__", "reduce"): ("functools", "reduce"),
    ("__builtin__", "intern"): ("sys", "intern"),
    ("__builtin__", "unichr"): ("builtins", "chr"),
    ("__builtin__", "unicode"): ("builtins", "str"),
    ("__builtin__", "long"): ("builtins", "int"),
    ("__builtin__", "basestring"): ("builtins", "str"),
    ("itertools", "izip"): ("builtins", "zip"),
    ("itertools", "imap"): ("builtins", "map"),
    ("itertools", "ifilter"): ("builtins", "filter"),
    ("itertools", "ifilterfalse"): ("itertools", "filterfalse"),
    ("itertools", "izip_longest"): ("itertools", "zip_longest"),
    ("exceptions", "StandardError"): ("builtins", "Exception"),
    ("UserDict", "IterableUserDict"): ("collections", "UserDict"),
    ("UserDict", "UserDict"): ("collections", "UserDict"),
    ("UserList", "UserList"): ("collections", "UserList"),
    ("UserString", "UserString"): ("collections", "UserString"),
}
#: Modules whose library has another name.
_LIBRARIES: Final = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "lightning_fabric": "Lightning",
    "transformers": "Transformers",
    "accelerate": "Accelerate",
    "numpy": "NumPy",
    "omegaconf": "OmegaConf",
    "sklearn": "scikit-learn",
    "pandas": "pandas",
    "torch": "PyTorch",
    "torchvision": "torchvision",
    "ultralytics": "Ultralytics",
    "stable_baselines3": "Stable-Baselines3",
    "megatron": "Megatron",
    "deepspeed": "DeepSpeed",
    "__main__": "the script that saved it",
}


def renamed(module: str, name: str) -> tuple[str, str]:
    """Return where torch looks for a name that may be of Python 2."""
    if (module, name) in _NAMES:
        return _NAMES[module, name]
    return _MODULES.get(module, module), name


def library_of(name: str) -> str:
    """Return what library a qualified name comes from, as people call it."""
    top = name.partition(".")[0]
    if top in _LIBRARIES:
        return _LIBRARIES[top]
    if top in sys.stdlib_module_names:
        return "the Python standard library"
    return top


_NUMPY_CLASSES: Final = {
    "b1": "Bool", "i1": "Int8", "i2": "Int16", "i4": "Int32", "i8": "Int64", "u1": "UInt8",
    "u2": "UInt16", "u4": "UInt32", "u8": "UInt64", "f2": "Float16", "f4": "Float32",
    "f8": "Float64", "f16": "LongDouble", "c8": "Complex64", "c16": "Complex128", "O8": "Object",
}  # fmt: skip


def numpy_dtype_class(code: str) -> str:
    """Return the class of a NumPy dtype as its pickle writes it ("f8"), or ""."""
    name = _NUMPY_CLASSES.get(code)
    if name is None and code[:1] in ("U", "S", "V", "M", "m"):
        name = {"U": "Str", "S": "Bytes", "V": "Void", "M": "DateTime64", "m": "TimeDelta64"}[
            code[0]
        ]
    return f"numpy.dtypes.{name}DType" if name else ""


@cache
def _opcodes() -> dict[int, str]:
    import pickle

    return {
        value[0]: name
        for name, value in vars(pickle).items()
        if name.isupper() and isinstance(value, bytes) and len(value) == 1
    }


def opcode_name(code: int) -> str:
    """Return an opcode's name, with its byte."""
    name = _opcodes().get(code)
    return f"{name} (0x{code:02x})" if name else f"0x{code:02x}"
