"""Recorded configuration of two runs: what of it differs at a step, and what that can act on.

A run records its configuration at its first step and, from then on, what of it changed: optimizers
with their hyper-parameters, schedules, modes (train or eval), settings of layers, precision flags.
A difference explains a first differing value only where it acts on that value: another weight decay
explains an update and no loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from everybit.core.link import Link
from everybit.diff.environment import Difference

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Sections of a configuration, and what comes of a whole step where one of them differs.
_ALL_COMPUTED: Final = frozenset(
    {Link.FORWARD, Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE, Link.OUTPUT}
)
_AFTER_FORWARD: Final = frozenset({Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE})
#: Settings of a layer that move its buffers and not what it gives.
_OF_BUFFERS: Final = frozenset({"momentum", "track_running_stats"})
#: Entries of the precision section that choose threads and kernels, and no number's precision.
ORDER_ENTRIES: Final = (
    "num_threads",
    "num_interop_threads",
    "deterministic",
    "onednn",
    "attention",
    "cudnn_benchmark",
    "cudnn_deterministic",
)
#: Sections that are read as a model is called: empty where no known one was yet, as in the first
#: step of a program that calls parts of its model and never the model.
_READ_AT_CALLS: Final = ("modes", "modules", "precision")
_PREFIX: Final = "configuration."


def merge(into: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with a later record of changes written over it; None: gone.

    >>> merge({"precision": {"tf32": False, "amp": ""}}, {"precision": {"amp": "bfloat16"}})
    {'precision': {'tf32': False, 'amp': 'bfloat16'}}
    """
    merged = dict(into)
    for key, value in change.items():
        before = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge(dict(before) if isinstance(before, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def in_force(records: Iterable[tuple[int, Mapping[str, Any]]], step: int) -> dict[str, Any]:
    """Return the configuration that a step was computed under; empty where none is on record."""
    state: dict[str, Any] = {}
    for number, change in records:
        if number > step and state:
            break
        state = merge(state, change)
    return state


def compare_configurations(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return the entries that differ; nothing where a side recorded no configuration.

    >>> one = {"optimizers": {"SGD": {"groups": {"0": {"lr": 0.1}}}}}
    >>> other = {"optimizers": {"SGD": {"groups": {"0": {"lr": 0.2}}}}}
    >>> [(d.entry, d.before, d.after) for d in compare_configurations(one, other)]
    [('configuration.optimizers.SGD.groups.0.lr', 0.1, 0.2)]
    """
    if not a or not b:
        return []
    untold = {section for section in _READ_AT_CALLS if not (a.get(section) and b.get(section))}
    flat = _flat(a), _flat(b)
    return [
        Difference(
            # The model itself has no name: its mode is `modes`, not `modes.`.
            entry=(_PREFIX + ".".join(path)).rstrip("."),
            before=flat[0].get(path),
            after=flat[1].get(path),
            kind="configuration",
        )
        for path in dict.fromkeys((*flat[0], *flat[1]))
        if path[0] not in untold
        and not _same(flat[0].get(path), flat[1].get(path))
        and not _goes_with_class(path, *flat)
    ]


def _goes_with_class(path: tuple[str, ...], *flat: Mapping[tuple[str, ...], Any]) -> bool:
    """Whether it is a setting of an optimizer or schedule of one run only, named by its class."""
    if path[0] not in ("optimizers", "schedulers") or path[2:] == ("class",):
        return False
    return sum((*path[:2], "class") in side for side in flat) == 1


def of_scalars(a: Mapping[str, float], b: Mapping[str, float]) -> list[Difference]:
    """Return a learning rate that differs among the numbers of a step, for records without more."""
    one, other = a.get("lr"), b.get("lr")
    if one is None or other is None or _same(one, other):
        return []
    entry = f"{_PREFIX}optimizers.lr"
    return [Difference(entry=entry, before=one, after=other, kind="configuration")]


def acts_on(entry: str, link: Link, module: str | None, tensor: str) -> bool:
    """Whether a configuration entry can change a value, given that all before it agree.

    Args:
        entry: `configuration.optimizers.AdamW.groups.0.lr` and the like.
        link: The link of the value.
        module: The module whose call or parameter it is, where that is known.
        tensor: Its name in the record.
    """
    section, _, rest = entry.removeprefix(_PREFIX).partition(".")
    if section in ("optimizers", "schedulers"):
        return link is Link.UPDATE
    if section == "scaler":
        return link in _AFTER_FORWARD
    if section == "precision":
        return link in _ALL_COMPUTED and not rest.startswith(ORDER_ENTRIES)
    if section == "modes":
        return _acts_in(rest, link, module)
    if section == "modules":
        path, _, setting = rest.rpartition(".")
        if setting in _OF_BUFFERS:
            return link is Link.UPDATE and _touches(path, module if module else tensor)
        return _acts_in(path, link, module)
    return link in _ALL_COMPUTED


def _acts_in(path: str, link: Link, module: str | None) -> bool:
    if link is Link.FORWARD and module is not None:
        return _touches(path, module)
    # Calls that are not traced one by one hide which module's value parted first.
    return link in _ALL_COMPUTED


def _touches(path: str, module: str) -> bool:
    """Whether one module is the other, lies in it, or holds it; "" is the whole model.

    >>> _touches("blocks.0.drop", "blocks.0"), _touches("", "head"), _touches("norm", "norm2")
    (True, True, False)
    """
    if not path or not module:
        return True
    return path == module or path.startswith(f"{module}.") or module.startswith(f"{path}.")


def _flat(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    if not isinstance(value, Mapping):
        return {path: value}
    for key, item in value.items():
        found |= _flat(item, (*path, str(key)))
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return list(a) == list(b)
    both_nan = isinstance(a, float) and isinstance(b, float) and a != a and b != b
    return both_nan or (a == b and isinstance(a, bool) is isinstance(b, bool))
