"""The training state that a checkpoint holds: model, optimizers, moving averages and counters.

Found in any nest of dicts, by what torch itself writes: an optimizer is where `param_groups.0.`
lies beside `state.`, a scheduler where `last_epoch` is, a model is the tensors that are nothing
else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.files.checkpoints.contents import Contents, read_contents, read_scalars
from everybit.files.checkpoints.matching import match_entries
from everybit.files.checkpoints.parameters import ModelState, find_models, split_averages
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from everybit.files.tensor import FileTensor

_GROUP: Final = re.compile(r"^(?P<root>.*?)\.?\bparam_groups\.(?P<group>\d+)\.(?P<rest>.+)$", re.S)
_NAMES: Final = ("param_names", "params_names", "names")
#: What people call the number of updates, epochs and so on, at the end of its key path.
COUNTERS: Final = frozenset({
    "current_step", "epoch", "global_step", "global_steps", "iter", "iter_num", "iteration",
    "last_epoch", "n_averaged", "num_updates", "optimization_step", "step", "steps", "total_steps",
    "updates", "_step_count",
})  # fmt: skip
_NOT_COUNTERS: Final = re.compile(
    r"(^|\.)(args|cfg|config|hparams|hyper_parameters|param_groups|log_history|loops)\."
)
_MAX_COUNTERS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One tensor of an optimizer's state for one parameter.

    Attributes:
        name: `exp_avg`, `momentum_buffer`...
        tensor: Its key path in the file.
        dtype: Canonical dtype name.
        shape: Shape.
    """

    name: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerEntry:
    """An optimizer's state for one parameter.

    Attributes:
        key: Index or name under which the file keeps it.
        name: The parameter's name, where the file says it.
        group: Its parameter group; None where no group lists it.
        parameter: Name of the model's tensor that it belongs to, where that is certain.
        moments: Its tensors of more than one element, and others but the counter.
        step: Updates that it took, where it counts them.
    """

    key: str
    name: str = ""
    group: int | None = None
    parameter: str = ""
    moments: tuple[Moment, ...] = ()
    step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerState:
    """One optimizer of a checkpoint.

    Attributes:
        file: The file's path relative to the target.
        root: Key path of its dict in the file; empty where it is the file.
        groups: Keys of the parameters of each group, in order.
        names: Names of the parameters of each group, in order; empty where the file has none.
        entries: In the order of the groups; those that no group lists last.
        matched_by: How parameters were found: `names`, `position`, or empty.
        sharded: Its file holds parts of tensors, whose shapes say nothing by themselves.
    """

    file: str
    root: str
    groups: tuple[tuple[str, ...], ...]
    names: tuple[tuple[str, ...], ...] = ()
    entries: tuple[OptimizerEntry, ...] = ()
    matched_by: str = ""
    sharded: bool = False

    @property
    def num_parameters(self) -> int:
        """How many parameters its groups list."""
        return sum(map(len, self.groups))

    @property
    def steps(self) -> list[float]:
        """The counters of its entries."""
        return [entry.step for entry in self.entries if entry.step is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """What a checkpoint says of a training run.

    Attributes:
        models: State dicts of models; the largest first.
        averages: State dicts of moving averages (EMA, SWA).
        optimizers: The optimizers.
        counters: Numbers of steps and epochs by `part:key path` (`key path` for a single file).
        schedulers: Key paths of learning-rate schedulers.
        rates: Learning rates of all groups.
    """

    models: tuple[ModelState, ...] = ()
    averages: tuple[ModelState, ...] = ()
    optimizers: tuple[OptimizerState, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    schedulers: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the largest model's tensors, in its own order."""
        return tuple(self.models[0].tensors) if self.models else ()


def read_training_state(path: str | PathLike[str]) -> TrainingState:
    """Read the training state of a checkpoint: a file, or a folder of files.

    Args:
        path: A `torch.save` file, or a folder as Trainer or Accelerate write it.

    Raises:
        PathError: It cannot be read.
    """
    place = Path(path)
    if not place.is_dir():
        return training_state({place.name: read_contents(place)})
    names = sorted(child.name for child in place.iterdir() if child.is_file())
    kept = [name for name in names if name.endswith((".pt", ".pth", ".bin", ".safetensors"))]
    return training_state({name: read_contents(place / name, name) for name in kept})


def training_state(files: Mapping[str, Contents]) -> TrainingState:
    """Return the training state that the files of one checkpoint hold together.

    Args:
        files: By the part that each plays, which names its counters.

    Raises:
        PathError: A file cannot be read.
    """
    models: list[ModelState] = []
    averages: list[ModelState] = []
    optimizers: list[OptimizerState] = []
    counters: dict[str, float] = {}
    schedulers: list[str] = []
    rates: list[float] = []
    for part, contents in files.items():
        roots = _optimizer_roots(contents)
        optimizers += [_optimizer(contents, root) for root in roots]
        rest = [t for t in contents.tensors if not any(_below(t.name, root) for root in roots)]
        live, averaged = split_averages(rest, contents.values, training=bool(roots))
        models += find_models(contents, live, roots)
        averages += [ModelState.of(contents, root, found) for root, found in averaged]
        label = f"{part}:" if len(files) > 1 else ""
        for key, value in _counters(contents, rest).items():
            counters[f"{label}{key}"] = value
            if key.rpartition(".")[2] == "last_epoch":
                schedulers.append(f"{label}{key.rpartition('.')[0]}")
        rates += _rates(contents)
    models.sort(key=lambda model: -model.num_elements)
    return TrainingState(
        models=tuple(models),
        averages=tuple(averages),
        optimizers=tuple(match_entries(found, models) for found in optimizers),
        counters=counters,
        schedulers=tuple(schedulers),
        rates=tuple(rates),
    )


def _rates(contents: Contents) -> list[float]:
    return [
        rate
        for key, value in contents.values.items()
        if ".param_groups." in f".{key}" and key.endswith(".lr")
        if (rate := _number(value)) is not None
    ]


def _below(name: str, root: str) -> bool:
    if not root:
        return name.startswith("state.")
    return name.startswith(f"{root}.")


def _number(value: object) -> float | None:
    """Return a plain number as a float; None for anything else, and for what no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isinstance(value, float) or value.bit_length() < 64 else None


def _optimizer_roots(contents: Contents) -> list[str]:
    roots: dict[str, None] = {}
    for key in contents.values:
        match = _GROUP.match(key)
        if match:
            roots.setdefault(match["root"])
    if contents.format is FileFormat.DISTCP:
        for tensor in contents.tensors:
            top, _, rest = tensor.name.partition(".")
            if rest.startswith("state.") and top.lower().startswith("optim"):
                roots.setdefault(top)
    return list(roots)


def _optimizer(contents: Contents, root: str) -> OptimizerState:
    groups: dict[int, list[str]] = {}
    names: dict[int, list[str]] = {}
    for key, value in contents.values.items():
        match = _GROUP.match(key)
        if match is None or match["root"] != root:
            continue
        group, (field_name, _, index) = int(match["group"]), match["rest"].partition(".")
        listed = groups.setdefault(group, [])
        if field_name == "params" and index.isdecimal():
            listed.append(str(value))
        elif field_name in _NAMES and index.isdecimal() and isinstance(value, str):
            names.setdefault(group, []).append(value)
    order = sorted(groups)
    named = tuple(tuple(names.get(group, ())) for group in order)
    keys = tuple(tuple(groups[group]) for group in order)
    if [len(found) for found in named] != [len(found) for found in keys]:
        named = ()
    return OptimizerState(
        file=contents.name,
        root=root,
        groups=keys,
        names=named,
        sharded=contents.format is FileFormat.DISTCP,
        entries=_entries(contents, f"{root}.state." if root else "state.", keys, named),
    )


def _entries(
    contents: Contents,
    prefix: str,
    groups: tuple[tuple[str, ...], ...],
    names: tuple[tuple[str, ...], ...],
) -> tuple[OptimizerEntry, ...]:
    moments: dict[str, list[Moment]] = {}
    counting: dict[str, FileTensor] = {}
    steps: dict[str, float] = {}
    for tensor in contents.tensors:
        if not tensor.name.startswith(prefix):
            continue
        key, _, moment = tensor.name[len(prefix) :].rpartition(".")
        if not key:
            continue
        held = moments.setdefault(key, [])
        if moment == "step" and tensor.num_elements == 1:
            counting[key] = tensor
            continue
        held.append(Moment(name=moment, tensor=tensor.name, dtype=tensor.dtype, shape=tensor.shape))
    for name, value in contents.values.items():
        number = _number(value) if name.startswith(prefix) and name.endswith(".step") else None
        if number is not None:
            key = name[len(prefix) :].rpartition(".")[0]
            moments.setdefault(key, [])
            steps[key] = number
    read = read_scalars(contents, counting.values()) if counting else {}
    for key, tensor in counting.items():
        if tensor.name in read:
            steps[key] = read[tensor.name]
    place = {
        key: (group, position)
        for group, keys in enumerate(groups)
        for position, key in enumerate(keys)
    }
    found = [
        OptimizerEntry(
            key=key,
            group=place[key][0] if key in place else None,
            name=names[place[key][0]][place[key][1]] if names and key in place else "",
            moments=tuple(held),
            step=steps.get(key),
        )
        for key, held in moments.items()
    ]
    last = (len(groups), 0)
    return tuple(sorted(found, key=lambda entry: place.get(entry.key, last)))


def _counters(contents: Contents, tensors: list[FileTensor]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in contents.values.items():
        if len(found) >= _MAX_COUNTERS:
            break
        if (
            key.rpartition(".")[2].lower() in COUNTERS
            and (number := _number(value)) is not None
            and not _NOT_COUNTERS.search(key)
            and ".state." not in f".{key}"
        ):
            found[key] = number
    scalars = [
        tensor
        for tensor in tensors
        if tensor.num_elements == 1 and tensor.name.rpartition(".")[2].lower() in COUNTERS
    ]
    found |= read_scalars(contents, scalars[:_MAX_COUNTERS]) if scalars else {}
    return found
