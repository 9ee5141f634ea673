"""NumPy's dtypes, scalars and arrays, made again from the bytes and fields of their pickles."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_KIND: Final = re.compile(r"[biufcSUVMmO]\d{0,9}")
_MAX_FIELDS: Final = 10_000
_MAX_DIMENSIONS: Final = 64
_SCALARS: Final = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "str_", "bytes_", "ndarray",
)  # fmt: skip


class OddError(Exception):
    """An object is not described as its pickler writes it; it stays a record."""


@functools.cache
def NUMPY_NAMES() -> dict[str, type]:  # noqa: N802 - a table that is made when it is asked for
    """Return the types of NumPy that a name may stand for."""
    import numpy as np

    return {f"numpy:{name}": getattr(np, name) for name in _SCALARS}


def _dtype(args: tuple[Any, ...], state: Any) -> Any:
    """Return a dtype: its code, and what BUILD gives it (version, order, ..., flags)."""
    import numpy as np

    code = args[0] if args else None
    if not isinstance(code, str) or not _KIND.fullmatch(code):
        raise OddError("no code of a dtype")
    if state is None:
        return np.dtype(code)
    if not isinstance(state, tuple) or len(state) not in (8, 9):
        raise OddError("no state of a dtype")
    order, sub, names, fields, size = state[1:6]
    if sub is not None or order not in ("<", ">", "|", "="):
        raise OddError("a dtype of parts")
    if names is not None:
        return _structured(names, fields, size)
    if code[0] in "mM" and len(state) == 9:
        return np.dtype(f"{order}{code}{_unit(state[8])}")
    return np.dtype(code if order == "|" else f"{order}{code}")


def _unit(metadata: Any) -> str:
    """Return the unit of a dtype of times, as NumPy writes it ("[10ms]")."""
    unit = metadata[1] if isinstance(metadata, tuple) and len(metadata) == 2 else None
    if not isinstance(unit, tuple) or len(unit) < 2 or not isinstance(unit[0], bytes):
        raise OddError("no unit of time")
    name = unit[0].decode("ascii")
    if name == "generic":
        return ""
    if not re.fullmatch(r"[A-Za-zμ]{1,2}", name) or type(unit[1]) is not int or unit[1] < 1:
        raise OddError("no unit of time")
    return f"[{unit[1]}{name}]"


def _structured(names: Any, fields: Any, size: Any) -> Any:
    import numpy as np

    if not isinstance(names, tuple) or not isinstance(fields, dict) or len(names) > _MAX_FIELDS:
        raise OddError("no fields of a dtype")
    kinds: list[Any] = [fields.get(name) for name in names]
    if not all(isinstance(kind, tuple) and isinstance(kind[0], np.dtype) for kind in kinds):
        raise OddError("no fields of a dtype")
    layout: Any = {
        "names": list(names),
        "formats": [kind[0] for kind in kinds],
        "offsets": [kind[1] for kind in kinds],
        "itemsize": size,
    }
    return np.dtype(layout)


def _scalar(args: tuple[Any, ...], state: Any) -> Any:
    import numpy as np

    if state is not None or len(args) != 2 or not isinstance(args[0], np.dtype):
        raise OddError("no scalar")
    if not isinstance(args[1], bytes) or args[0].hasobject or len(args[1]) != args[0].itemsize:
        raise OddError("no bytes of a scalar")
    return np.frombuffer(args[1], dtype=args[0])[0]


def _reconstructed(args: tuple[Any, ...], state: Any) -> Any:
    """Return an array: BUILD gives it (version, shape, dtype, column-major, data)."""
    import numpy as np

    if len(args) != 3 or args[0] is not np.ndarray:
        raise OddError("an array of another class")
    if not isinstance(state, tuple) or len(state) != 5:
        raise OddError("no state of an array")
    _, shape, kind, column_major, data = state
    return _array(data, kind, shape, "F" if column_major is True else "C")


def _from_buffer(args: tuple[Any, ...], state: Any) -> Any:
    if state is not None or len(args) != 4 or args[3] not in ("C", "F"):
        raise OddError("no array")
    data, kind, shape, order = args
    return _array(data, kind, shape, order)


def _array(data: Any, kind: Any, shape: Any, order: str) -> Any:
    import numpy as np

    if not isinstance(kind, np.dtype) or not isinstance(shape, tuple):
        raise OddError("no dtype or shape of an array")
    if len(shape) > _MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise OddError("no shape of an array")
    count = math.prod(shape)
    if kind.hasobject:
        if kind.kind != "O" or not isinstance(data, list) or len(data) != count:
            raise OddError("an array of objects that are not there")
        found = np.empty(count, dtype=object)
        for index, item in enumerate(data):
            found[index] = item
        return found.reshape(shape, order=order)  # type: ignore[call-overload]
    if not isinstance(data, bytes | bytearray) or len(data) != count * kind.itemsize:
        raise OddError("an array of another size than its bytes")
    if not kind.itemsize:
        return np.empty(shape, dtype=kind)
    return np.frombuffer(bytes(data), dtype=kind).reshape(shape, order=order).copy(order="K")  # type: ignore[call-overload]


MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "numpy:dtype": _dtype,
    "numpy._core.multiarray:_reconstruct": _reconstructed,
    "numpy._core.multiarray:scalar": _scalar,
    "numpy._core.numeric:_frombuffer": _from_buffer,
}
