"""One 64-bit word for a sample or a batch, whatever it is made of; cheap enough for every sample.

Tensors and arrays give their dtype, their shape and their bytes; numbers and text what they are;
lists, tuples, dictionaries and data classes their parts, in order. What has no bytes to read gives
none, and a value that consists of nothing else has no word.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
import xxhash

_MAX_DEPTH: Final = 8
#: Longer lists of plain values are hashed as one text.
_PLAIN: Final = (bool, int, float, complex, str, type(None))


def value_word(value: Any) -> int:
    """Return the word of a sample or batch (XXH3-64); 0 where nothing of it can be read.

    The same for equal values, on the CPU, whatever their strides. Nothing is waited for: a tensor
    on an accelerator has no word.
    """
    hasher = xxhash.xxh3_64()
    return (hasher.intdigest() or 1) if _add(hasher, value, 0) else 0


def _add(hasher: Any, value: Any, depth: int) -> bool:
    """Add a value; whether anything of it could be read."""
    if isinstance(value, torch.Tensor):
        return _add_tensor(hasher, value)
    if isinstance(value, _PLAIN):
        hasher.update(f"{type(value).__name__}:{value!r};".encode("utf-8", "surrogatepass"))
        return True
    if isinstance(value, (np.ndarray, np.generic)):
        return _add_array(hasher, np.asarray(value))
    if isinstance(value, (bytes, bytearray)):
        hasher.update(b"bytes:")
        hasher.update(value)
        return True
    if depth >= _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        hasher.update(b"{")
        found = [
            _add(hasher, str(key), depth) and _add(hasher, item, depth + 1)
            for key, item in dict.items(value)
        ]
        hasher.update(b"}")
        return any(found) or not found
    if isinstance(value, (list, tuple)):
        hasher.update(b"[")
        found = [_add(hasher, item, depth + 1) for item in value]
        hasher.update(b"]")
        return any(found) or not found
    return _add_object(hasher, value, depth)


def _add_object(hasher: Any, value: Any, depth: int) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        return _add(hasher, parts, depth + 1)
    kind = type(value)
    if kind.__module__.partition(".")[0] == "PIL":
        hasher.update(f"{value.mode}{value.size}".encode())
        hasher.update(value.tobytes())
        return True
    data = getattr(value, "data", None)  # UserDict: batches of tokenizers
    if isinstance(data, dict):
        return _add(hasher, data, depth + 1)
    return False


@lru_cache(maxsize=256)
def _header(dtype: Any, shape: tuple[int, ...]) -> bytes:
    return f"{dtype}{shape}:".encode()


def _add_tensor(hasher: Any, tensor: torch.Tensor) -> bool:
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    plain = tensor.detach()
    if plain.is_conj() or plain.is_neg() or not plain.is_contiguous():
        plain = plain.resolve_conj().resolve_neg().contiguous()
    try:
        data = plain.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError):
        return False
    hasher.update(_header(plain.dtype, tuple(plain.shape)))
    hasher.update(data)
    return True


def _add_array(hasher: Any, array: Any) -> bool:
    if array.dtype.hasobject:
        return False
    hasher.update(_header(array.dtype.str, array.shape))
    hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return True
