"""Steps, epochs and the order of parameters, as a checkpoint's own files tell them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE, decode
from everybit.files.elements import canonical_chunks
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure

#: Last parts of key paths under which trainers count.
_COUNTERS: Final = frozenset(
    {
        "_step_count",
        "completed_steps",
        "current_epoch",
        "epoch",
        "global_epoch",
        "global_step",
        "iter",
        "iter_num",
        "iteration",
        "last_epoch",
        "n_averaged",
        "num_updates",
        "samples_seen",
        "step",
        "steps",
        "tokens_seen",
        "update_step",
    }
)
#: Those that count updates, when they stand at the top of a file.
_STEPS: Final = ("global_step", "step", "num_updates", "completed_steps", "iteration", "iter_num")
#: Settings that bear a counter's name.
_SETTINGS: Final = re.compile(
    r"(^|\.)(args|cfg|config|hparams|hyper_parameters|param_groups|log_history|loops)\."
)
_NUMBER: Final = re.compile(r"(?<![^.])\d+(?![^.])")
_MAX_LISTED: Final = 8
_MAX_COUNTERS: Final = 256
_MAX_SCALARS: Final = 4096
_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_MAX_DEPTH: Final = 8

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a file tells of the training that it was saved from.

    Attributes:
        counters: Step and epoch counters by dotted key path.
        parameter_order: As `SealedFile.parameter_order`.
    """

    counters: Mapping[str, Number] = field(default_factory=dict)
    parameter_order: tuple[str, ...] = ()


def read_told(source: ByteSource, structure: Structure) -> Told:
    """Read what one file tells of its training.

    Args:
        source: The file.
        structure: Its structure, without damage.

    Raises:
        PathError: It cannot be read.
    """
    values: Mapping[str, Any] = {}
    if structure.format is FileFormat.TEXT and source.path.name.endswith(".json"):
        values = dict(_json_numbers(source))
    elif structure.tensors or structure.members:
        values = structure.values
    numbers = [(key, value) for key, value in values.items() if _counts(key, value)]
    numbers += _scalars(source, structure)
    return Told(
        counters=_collapse(numbers),
        parameter_order=_numbered_names(values) or structure.order,
    )


def agreed_step(counters: Mapping[str, Mapping[str, Number]]) -> int | None:
    """Return the number of updates on which a folder's files agree; None where they do not.

    Args:
        counters: By file, then by key path. Only keys at the top of a file are asked: an inner
            `step` counts something of its own.
    """
    found: set[int] = set()
    for told in counters.values():
        step = next((told[key] for key in _STEPS if key in told), None)
        if step is not None and step == int(step) and step >= 0:
            found.add(int(step))
    return found.pop() if len(found) == 1 else None


def _counts(key: str, value: Any) -> bool:
    if key.rpartition(".")[2] not in _COUNTERS or _SETTINGS.search(key):
        return False
    # JSON and the manifest know 64 bits and no infinity.
    if type(value) is int:
        return abs(value) < 1 << 63
    return type(value) is float and math.isfinite(value)


def _scalars(source: ByteSource, structure: Structure) -> Iterator[tuple[str, Number]]:
    """Yield counters that are tensors of one element, as torch's optimizers keep them."""
    left = _MAX_SCALARS
    for tensor in structure.tensors:
        if tensor.name.rpartition(".")[2] not in _COUNTERS or tensor.num_elements != 1:
            continue
        if tensor.unreadable or tensor.dtype not in ITEMSIZE or left <= 0:
            continue
        left -= 1
        raw = b"".join(bytes(chunk) for chunk in canonical_chunks(source, tensor))
        value = decode(tensor.dtype, raw) if len(raw) == tensor.itemsize else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int | float) and _counts(tensor.name, value):
            yield tensor.name, value


def _collapse(numbers: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    """Put `*` for the numbers in key paths where all that differ in them are equal."""
    alike: dict[str, list[tuple[str, Number]]] = {}
    for key, value in numbers:
        alike.setdefault(_NUMBER.sub("*", key), []).append((key, value))
    found: dict[str, Number] = {}
    for pattern, group in alike.items():
        if len(group) > 1 and len({value for _, value in group}) == 1:
            found[pattern] = group[0][1]
        else:
            found.update(group[:_MAX_LISTED])
        if len(found) >= _MAX_COUNTERS:
            break
    return found


def _json_numbers(source: ByteSource) -> Iterator[tuple[str, Number]]:
    if source.size > _MAX_JSON_BYTES:
        return
    try:
        document = json.loads(source.read(0, source.size))
    except (ValueError, RecursionError):
        return
    todo: list[tuple[str, Any, int]] = [("", document, 0)]
    while todo:
        above, node, depth = todo.pop()
        if isinstance(node, dict) and depth < _MAX_DEPTH:
            todo += [(f"{above}.{key}" if above else key, item, depth + 1)
                     for key, item in node.items()]  # fmt: skip
        elif type(node) in (int, float):
            yield above, node


def _numbered_names(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that an optimizer's groups give its parameters, in their numbering.

    Torch keeps them as `param_groups.G.param_names` beside `param_groups.G.params`; empty where
    they are not there, or not all.
    """
    names: dict[str, dict[int, str]] = {}
    for key, value in values.items():
        prefix, _, place = key.rpartition(".")
        if not isinstance(value, str) or not prefix.endswith(".param_names"):
            continue
        index = values.get(f"{prefix.removesuffix('param_names')}params.{place}")
        if type(index) is int:
            optimizer = prefix.rpartition("param_groups.")[0]
            names.setdefault(optimizer, {})[index] = value
    for numbered in names.values():
        if sorted(numbered) == list(range(len(numbered))):
            return tuple(numbered[index] for index in range(len(numbered)))
    return ()
