"""Which tensors of a file are meant for a model, and under which names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.checkpoint.renames import Rename, best_fit, placed
from everybit.files.model import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.model import Model, ModelTensor

    Shapes = Mapping[str, tuple[int, ...]]

#: Keys under which training scripts keep a model's state dict: these say so themselves.
_SURE: Final = ("state_dict", "model_state_dict", "model_state", "module_state_dict")
#: These can be the beginning of a name as well: they count where something stands beside them.
_LIKELY: Final = ("model", "net", "network", "module", "weights", "params", "student", "backbone")
_OPTIMIZER: Final = re.compile(r"(?:^|\.)state\.\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The tensors of a file that are meant for a model.

    Attributes:
        container: Dotted key under which they lie, with its dot; "" for the file's top.
        tensors: By the names that they are loaded under.
        rename: The change of names, below the container.
        others: Tensors that lie elsewhere in the file (optimizer, averages).
        keeps_order: `tensors` are in the order of the state dict that was saved.
    """

    container: str
    tensors: Mapping[str, ModelTensor]
    rename: Rename
    others: tuple[str, ...]
    keeps_order: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}


def choose(model: Model, held: Shapes, prefix: str | None, *, key: str | None = None) -> Chosen:
    """Choose the tensors of a file that are meant for a model.

    Args:
        model: What the file holds.
        held: Shapes of the model's tensors by name.
        prefix: None for the names as they are; `auto` for the rename under which most fit; else a
            prefix that is removed from the file's names, or where none of them has it added.
        key: Dotted key of the file under which to look; found where None.
    """
    stored = {tensor.name: tensor for tensor in model.tensors}
    container = f"{key}." if key else _container(model, stored, held)
    inside = {
        name[len(container) :]: tensor
        for name, tensor in stored.items()
        if name.startswith(container) and (container or not _OPTIMIZER.search(name))
    }
    inside = _of_module(inside, held) or inside
    rename = _rename(inside, held, prefix)
    if rename.without_wrappers:
        places = placed(rename, inside, held)
        named = {old: new for new, old in places.items()}
        tensors = {named.get(name, name): tensor for name, tensor in inside.items()}
    else:
        tensors = {}
        for name, tensor in inside.items():
            new = rename.apply(name)
            tensors[name if new is None else new] = tensor
    mine = {tensor.name for tensor in inside.values()}
    return Chosen(
        container=container,
        tensors=tensors,
        rename=rename,
        others=tuple(name for name in stored if name not in mine),
        keeps_order=model.layout in (Layout.FILE, Layout.FOLDER)
        and all(part.tensor.member is not None for t in tensors.values() for part in t.parts),
    )


def _of_module(inside: Mapping[str, ModelTensor], held: Shapes) -> dict[str, ModelTensor] | None:
    """Return the tensors of a module that was saved itself, under its state dict's names."""
    found: dict[str, ModelTensor] = {}
    for name, tensor in inside.items():
        parts = name.split(".")
        path: list[str] = []
        while len(parts) > 2 and parts[0] == "_modules":
            path.append(parts[1])
            del parts[:2]
        if parts[0] not in ("_parameters", "_buffers") or len(parts) != 2:
            return None
        new = ".".join([*path, parts[1]])
        # Buffers that a state dict leaves out lie among the others.
        if parts[0] == "_parameters" or new in held:
            found[new] = tensor
    return found


def _rename(inside: Mapping[str, ModelTensor], held: Shapes, prefix: str | None) -> Rename:
    if not prefix:
        return Rename()
    if prefix == "auto":
        fit = best_fit(held, {name: tensor.shape for name, tensor in inside.items()})
        return fit.rename if fit is not None and not fit.ambiguous else Rename()
    dotted = prefix if prefix.endswith(".") else f"{prefix}."
    if any(name.startswith(dotted) for name in inside):
        return Rename(drop=dotted)
    return Rename(add=dotted)


def _container(model: Model, stored: Mapping[str, ModelTensor], held: Shapes) -> str:
    """Return the key of the file under which the model's state dict lies, with its dot."""
    if any(name in held and held[name] == tensor.shape for name, tensor in stored.items()):
        return ""
    tops = {name.partition(".")[0] for name in stored if "." in name}
    for key in _SURE:
        if key in tops:
            return f"{key}."
    beside = {str(key).partition(".")[0] for key in model.values} | {
        name.partition(".")[0] for name in stored
    }
    for key in _LIKELY:
        # DCP names the keys of nested dicts so; elsewhere it may as well be part of a name.
        if key in tops and (beside - {key} or model.layout is Layout.DCP):
            return f"{key}."
    return ""
