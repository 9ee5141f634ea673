"""Capsules on disk: one JSON file and one of arrays, readable by their owner only; no pickle."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.core.dtype import ITEMSIZE
from everybit.core.errors import PathError
from everybit.guard.capsule.content import Capsule
from everybit.ledger.arrays import read_arrays, write_arrays
from everybit.ledger.folder import create_private
from everybit.probe.memory import TensorMemory, dtype_name

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SCHEMA: Final = "everybit.capsule/1"
FOLDER: Final = "capsules"
_JSON: Final = "capsule.json"
_ARRAYS: Final = "tensors.npz"
_MAX_JSON_BYTES: Final = 64 * 1024 * 1024
_PLAIN: Final = ("module", "step", "rank", "finding", "spec", "args", "kwargs", "settings", "facts")
_GROUPS: Final = ("seeds", "right", "found")
_TODO: Final = "a capsule is a folder below `capsules` of a run folder"


def write_capsule(capsule: Capsule, run: Path) -> Path:
    """Write a capsule into a run folder, whole or not at all; return its folder.

    Raises:
        OSError: It cannot be written; nothing is left of it.
    """
    folder = run / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True, parents=True)
    draft = folder / f".{os.getpid()}.{uuid.uuid4().hex[:8]}.part"
    draft.mkdir(mode=0o700)
    try:
        _write(capsule, draft)
        part = re.sub(r"[^\w.-]", "_", capsule.module)[:80] or "model"
        for number in range(1000):
            name = f"{capsule.step:08d}-r{capsule.rank}-{part}" + (f"-{number}" if number else "")
            try:
                draft.rename(folder / name)
            except OSError:
                if not (folder / name).exists():
                    raise
            else:
                return folder / name
        raise FileExistsError(f"{folder} holds a thousand capsules of this step")
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def find_capsules(run: Path, step: int | None = None) -> list[Path]:
    """Return the capsules of a run folder, by step, rank and module.

    Args:
        run: The run folder, its `capsules` folder, or a capsule itself.
        step: Only those of this step.

    Raises:
        PathError: There is no such folder, or it holds no capsule.
    """
    if not run.is_dir():
        raise PathError("is no folder", where=str(run), todo=_TODO)
    if (run / _JSON).is_file():
        return [run]
    folder = run if run.name == FOLDER else run / FOLDER
    found = sorted(path.parent for path in folder.glob(f"[0-9]*/{_JSON}"))
    chosen = [path for path in found if step is None or path.name.startswith(f"{step:08d}-")]
    if not chosen:
        steps = sorted({int(path.name.partition("-")[0]) for path in found})
        what = "holds no capsule" + (f" of step {step}" if found and step is not None else "")
        todo = (
            f"there are some of steps {', '.join(map(str, steps[:10]))}"
            if steps
            else "capsules are kept when replay finds a mismatch (CMP701)"
        )
        raise PathError(what, where=str(run), todo=todo)
    return chosen


def read_capsule(folder: Path) -> Capsule:
    """Read a capsule back; damaged and hostile ones are one clear error.

    Raises:
        PathError: It cannot be read, or is none.
    """
    try:
        path = folder / _JSON
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ValueError("its description is too large")
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"it is not of schema {SCHEMA}")
        arrays = read_arrays(folder / _ARRAYS, data["arrays"])
        groups: dict[str, Any] = {
            name: {key: _tensor(arrays, each) for key, each in data[name].items()}
            for name in _GROUPS
        }
        return Capsule(
            **{key: data[key] for key in _PLAIN},
            tensors=[_tensor(arrays, each) for each in data["tensors"]],
            rng=None if data["rng"] is None else _tensor(arrays, data["rng"]),
            **groups,
        )
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        raise PathError(f"is no capsule ({error})", where=str(folder), todo=_TODO) from error


def _write(capsule: Capsule, draft: Path) -> None:
    arrays: dict[str, NDArray[np.uint8]] = {}
    info: dict[str, Any] = {"schema": SCHEMA}
    info |= {key: getattr(capsule, key) for key in _PLAIN}
    info["tensors"] = [_described(each, arrays) for each in capsule.tensors]
    info["rng"] = None if capsule.rng is None else _described(capsule.rng, arrays)
    for name in _GROUPS:
        info[name] = {key: _described(each, arrays) for key, each in getattr(capsule, name).items()}
    info["arrays"] = write_arrays(draft / _ARRAYS, arrays)
    with os.fdopen(create_private(draft / _JSON), "w", encoding="utf-8") as text:
        json.dump(info, text, indent=1, allow_nan=False)
        text.flush()
        os.fsync(text.fileno())


def _described(tensor: torch.Tensor, arrays: dict[str, NDArray[np.uint8]]) -> dict[str, Any]:
    """Take up a tensor's bytes in the order of its memory, which kernels look at."""
    name = f"t{len(arrays)}"
    tensor = tensor.detach().cpu()
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    flat = tensor.permute(order).contiguous()
    arrays[name] = np.frombuffer(TensorMemory.of(flat).copy(), np.uint8)
    return {
        "array": name,
        "dtype": dtype_name(tensor.dtype),
        "shape": list(tensor.shape),
        "order": order,
    }


def _tensor(arrays: dict[str, NDArray[Any]], data: Any) -> torch.Tensor:
    dtype, shape, order = data["dtype"], data["shape"], data["order"]
    if dtype not in ITEMSIZE or sorted(order) != list(range(len(shape))):
        raise ValueError(f"a tensor of dtype {dtype!r}, shape {shape!r}, order {order!r}")
    raw = arrays[data["array"]]
    count = ITEMSIZE[dtype]
    for size in shape:
        count *= int(size)
    if raw.dtype != np.uint8 or len(raw) != count or min(shape, default=0) < 0:
        raise ValueError(f"a tensor of shape {shape!r} with {len(raw)} bytes")
    kind = getattr(torch, dtype)
    inner = [int(shape[axis]) for axis in order]
    if not count:
        return torch.empty([int(size) for size in shape], dtype=kind)
    flat = torch.frombuffer(bytearray(raw.tobytes()), dtype=torch.uint8).view(kind).reshape(inner)
    back = [order.index(axis) for axis in range(len(order))]
    return flat.permute(back)
