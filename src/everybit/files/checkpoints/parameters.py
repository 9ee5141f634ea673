"""Which tensors of a file are a model's, and which a moving average of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.files.checkpoints.contents import Contents
    from everybit.files.pickles.plain import Plain
    from everybit.files.tensor import FileTensor

#: Keys under which training files keep a model.
_MODEL_KEYS: Final = frozenset({
    "model", "model_state", "model_state_dict", "models", "module", "net", "net_state_dict",
    "network", "params", "state_dict", "weights",
})  # fmt: skip
_AVERAGE: Final = re.compile(r"(^|[_\W\d])(ema|swa|averaged?|shadow|polyak)([_\W\d]|$)", re.I)
#: Keys inside a moving average that hold its tensors, and wrappers that name them anew.
_WRAPPERS: Final = (
    "module", "model", "shadow", "state_dict", "ema_model", "params", "_orig_mod", "ema",
    "shadow_params", "averaged_model",
)  # fmt: skip
_AVERAGE_COUNTERS: Final = ("n_averaged", "num_updates", "decay", "initted", "step", "updates")
_BUFFERS: Final = re.compile(
    r"(^|\.)(running_mean|running_var|num_batches_tracked|position_ids|inv_freq|masked_bias)$"
)
_INTEGERS: Final = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """A state dict in a checkpoint.

    Attributes:
        file: The file's path relative to the target.
        root: Key path of the dict in the file; empty where it is the file.
        tensors: The file's tensors by parameter name, in the file's order.
        ordered: That order is the one of the model's own keys.
    """

    file: str
    root: str
    tensors: Mapping[str, FileTensor]
    ordered: bool = False

    @classmethod
    def of(cls, contents: Contents, root: str, tensors: Sequence[FileTensor]) -> ModelState:
        """Build one from the tensors below `root`."""
        cut = len(root) + 1 if root else 0
        return cls(
            file=contents.name,
            root=root,
            tensors={tensor.name[cut:]: tensor for tensor in tensors},
            ordered=contents.ordered,
        )

    @property
    def num_elements(self) -> int:
        """Number of elements of all tensors."""
        return sum(tensor.num_elements for tensor in self.tensors.values())

    def trainable(self) -> dict[str, FileTensor]:
        """Return the tensors that can be parameters, each storage once, as an optimizer sees them.

        Left out are integers and the buffers that torch's own modules keep.
        """
        seen: set[tuple[object, ...]] = set()
        found = {}
        for name, tensor in self.tensors.items():
            if tensor.dtype in _INTEGERS or _BUFFERS.search(name):
                continue
            place = (tensor.member, tensor.start, tensor.shape, tensor.stride)
            if tensor.byte_ranges and place in seen:
                continue
            seen.add(place)
            found[name] = tensor
        return found


def split_averages(
    tensors: Sequence[FileTensor], values: Mapping[str, Plain], *, training: bool
) -> tuple[list[FileTensor], list[tuple[str, list[FileTensor]]]]:
    """Return what is no moving average, and the averages with their key paths.

    Args:
        tensors: Tensors that are no optimizer state.
        values: The file's plain values.
        training: The file holds an optimizer, so that its top level is no state dict.
    """
    tops = {tensor.name.partition(".")[0] for tensor in tensors}
    tops |= {key.partition(".")[0] for key in values}
    if not training and not (tops & _MODEL_KEYS and len(tops) > 1):
        return list(tensors), []
    live: list[FileTensor] = []
    averaged: dict[str, list[FileTensor]] = {}
    for tensor in tensors:
        top, _, rest = tensor.name.partition(".")
        if top == "callbacks":
            second = rest.partition(".")[0]
            if _AVERAGE.search(second) or second.lower().startswith("ema"):
                averaged.setdefault(f"{top}.{second}", []).append(tensor)
            continue
        if _AVERAGE.search(top):
            averaged.setdefault(top, []).append(tensor)
        else:
            live.append(tensor)
    return live, list(averaged.items())


def find_models(
    contents: Contents, tensors: Sequence[FileTensor], optimizers: Sequence[str]
) -> list[ModelState]:
    """Return the state dicts among the tensors of a file.

    Args:
        contents: The file.
        tensors: Its tensors that are neither optimizer state nor moving averages.
        optimizers: Key paths of its optimizers.
    """
    if "" in optimizers or _is_state_of_the_world(contents.name):
        return []
    if all(tensor.dtype in _INTEGERS for tensor in tensors):
        return []
    tops: dict[str, list[FileTensor]] = {}
    for tensor in tensors:
        tops.setdefault(tensor.name.partition(".")[0], []).append(tensor)
    keys = set(tops) | {key.partition(".")[0] for key in contents.values}
    nested = bool(optimizers) or (len(keys & _MODEL_KEYS) >= 1 and bool(keys - set(tops)))
    if not nested and set(tops) <= {"state_dict", "model_state_dict"}:
        nested = True
    if not nested:
        return [ModelState.of(contents, "", tensors)]
    return [
        ModelState.of(contents, top, held)
        for top, held in tops.items()
        if any("." in tensor.name for tensor in held) and not _is_state_of_the_world(top)
    ]


def _is_state_of_the_world(top: str) -> bool:
    lowered = top.rpartition("/")[2].lower()
    return any(
        word in lowered
        for word in ("rng", "random", "scaler", "scheduler", "sampler", "training_args")
    )


def pair_average(average: ModelState, model: ModelState) -> dict[str, FileTensor]:
    """Return the average's tensors by the names of the model's, as far as a prefix explains them.

    Names of the average that no prefix leads to a name of the model are kept as they are; its own
    counters are left out.
    """
    known = {strip_wrappers(name) for name in model.tensors}
    pairs: dict[str, FileTensor] = {}
    for name, tensor in average.tensors.items():
        if name.rpartition(".")[2] in _AVERAGE_COUNTERS and tensor.num_elements == 1:
            continue
        short = name
        for _ in range(4):
            if short in known or strip_wrappers(short) in known:
                break
            head, _, rest = short.partition(".")
            if head not in _WRAPPERS or not rest:
                break
            short = rest
        pairs[strip_wrappers(short) if strip_wrappers(short) in known else short] = tensor
    return pairs


def strip_wrappers(name: str) -> str:
    """Return a parameter's name without the prefixes of DDP and torch.compile.

    >>> strip_wrappers("module._orig_mod.layer.weight")
    'layer.weight'
    """
    parts = [part for part in name.split(".") if part != "_orig_mod"]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)
