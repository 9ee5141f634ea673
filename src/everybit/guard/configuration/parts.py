"""Modes and settings of modules: what dropout, normalisation and other layers compute by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.guard.configuration.plain import plain
from everybit.guard.trace.parts import path_of
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

#: What layers of other libraries and of the program compute by goes by these names. An attribute of
#: another name may be a counter, or a note of the last loss.
_KNOWN_NAMES = (
    "p", "dropout", "dropout_p", "drop_prob", "drop_path", "attn_dropout", "attention_dropout",
    "eps", "epsilon", "variance_epsilon", "norm_eps", "momentum", "scale", "scaling",
    "softmax_scale", "temperature", "num_heads", "n_heads", "n_head", "head_dim", "causal",
    "is_causal", "inplace", "negative_slope", "batch_first", "num_layers", "bidirectional",
    "label_smoothing", "ignore_index", "reduction",
)  # fmt: skip
_SIMPLE = frozenset({bool, int, float, str, type(None)})
_MODES = {True: "train", False: "eval"}


class PartSettings:
    """Reads modules; a model that is as it was is passed over quickly."""

    def __init__(self) -> None:
        self._looked: list[Any] = []
        self._parts: list[int] = []
        self._present: list[tuple[str, ...]] = []
        self._found: dict[str, Any] = {}

    def read(self, roots: Iterable[tuple[torch.nn.Module, str | None]]) -> dict[str, Any]:
        """Return `modes` and `modules` of the roots, by path."""
        roots = list(roots)
        parts = [part for root, _ in roots for part in root.modules()]
        if list(map(id, parts)) != self._parts:
            self._parts = list(map(id, parts))
            self._present = [_present(part) for part in parts]
        looked = [_look(part, names) for part, names in zip(parts, self._present, strict=True)]
        if looked == self._looked and self._found:
            return self._found
        self._looked = looked
        modes: dict[str, str] = {}
        modules: dict[str, Any] = {}
        for root, name in roots:
            top = unwrap(root)
            modes[path_of(name, "")] = _MODES[top.training]
            for path, part in _named_parts(top):
                if part.training is not top.training:
                    modes[path_of(name, path)] = _MODES[part.training]
                settings = _settings_of(part)
                if settings:
                    kind = {"class": _class_of(part).__name__}
                    modules[path_of(name, path)] = kind | settings
        self._found = {"modes": modes, "modules": modules}
        return self._found


def _class_of(part: torch.nn.Module) -> type:
    """Return the class that the program gave a module: FSDP2 puts one of its own before it."""
    kind = type(part)
    is_fsdp = any(base.__name__ == "FSDPModule" for base in kind.__bases__)
    return kind.__bases__[-1] if is_fsdp else kind


def _present(part: torch.nn.Module) -> tuple[str, ...]:
    held = part.__dict__
    return tuple(key for key in _names_of(type(part)) if key in held)


def _look(part: torch.nn.Module, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what tells whether a module is as it was."""
    held = part.__dict__
    values = [held.get(key) for key in names]
    return (part.training, *[v if type(v) in _SIMPLE else _told(v) for v in values])


def _told(value: Any) -> Any:
    """Return what stands for a value that cannot just be compared: a tensor, or a list of some."""
    told = plain(value)
    return id(value) if told is None else told


def _settings_of(part: torch.nn.Module) -> dict[str, Any]:
    held = part.__dict__
    found = {key: plain(held[key]) for key in _present(part)}
    return {key: value for key, value in found.items() if value is not None}


_names: dict[type, tuple[str, ...]] = {}


def _names_of(kind: type) -> tuple[str, ...]:
    """Return the attributes by which modules of a class compute."""
    known = _names.get(kind)
    if known is None:
        constants = [
            str(name)
            for each in kind.__mro__
            if each.__module__.startswith("torch.nn")
            for name in getattr(each, "__constants__", ())
        ]
        known = _names[kind] = tuple(dict.fromkeys((*constants, *_KNOWN_NAMES)))
    return known


def _named_parts(top: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Module]]:
    """Yield the parts of a model by path, wrappers left out."""
    stack = [("", top)]
    seen: set[int] = set()
    while stack:
        path, part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield path, part
        stack += [
            (f"{path}.{key}" if path else key, unwrap(child))
            for key, child in reversed(part._modules.items())
            if child is not None
        ]
