"""What a capsule holds, and plain forms of nests and modules that need no pickle."""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections import UserDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Modules of torch whose layers are looked up without being asked for.
TRUSTED: Final = ("torch.nn.modules.",)
_MAX_DEPTH: Final = 32
#: Attributes that `torch.nn.Module.__init__` makes: they are not part of what a module is.
_BARE: Final = frozenset(torch.nn.Module().__dict__)
_NAMES: Final = (
    "relu", "relu6", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "selu", "celu",
    "softplus", "softsign", "mish", "hardswish", "hardsigmoid", "hardtanh", "logsigmoid",
    "softmax", "log_softmax",
)  # fmt: skip
#: Functions that layers keep as attributes.
_FUNCTIONS: Final = {
    f"{place}.{name}": getattr(module, name)
    for place, module in (("torch", torch), ("torch.nn.functional", torch.nn.functional))
    for name in _NAMES
    if hasattr(module, name)
}
_CONSTANTS: Final[dict[str, dict[str, Any]]] = {
    "dtype": {str(v): v for v in vars(torch).values() if isinstance(v, torch.dtype)},
    "memory_format": {
        str(v): v for v in vars(torch).values() if isinstance(v, torch.memory_format)
    },
    "layout": {str(v): v for v in vars(torch).values() if isinstance(v, torch.layout)},
}


class NotPlainError(Exception):
    """Something has no plain form; the text says what."""


class ForeignCodeError(Exception):
    """Code of the program's own is needed; the text names it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Capsule:
    """One call of one part of a model.

    Attributes:
        module: Qualified name of the part.
        step: Of the run.
        rank: Of the process.
        finding: The finding it was kept for, as JSON.
        spec: Plain form of the part (`encode_module`).
        args: Plain form of its positional inputs.
        kwargs: Plain form of its keyword inputs.
        tensors: What `{"tensor": n}` stands for in these.
        seeds: The gradients that came into its outputs, by place; empty where only the forward
            pass is in question.
        right: What the repeats gave: outputs by place, gradients as `grad of <name>`.
        found: What was computed first, as far as it was still there.
        rng: State of torch's CPU generator before the call.
        settings: Modes of torch, in words: threads, autocast, determinism, precision.
        facts: Versions and the device it was computed on.
    """

    module: str
    step: int
    rank: int
    finding: Mapping[str, Any]
    spec: Mapping[str, Any]
    args: Any
    kwargs: Any
    tensors: list[torch.Tensor] = field(default_factory=list)
    seeds: dict[str, torch.Tensor] = field(default_factory=dict)
    right: dict[str, torch.Tensor] = field(default_factory=dict)
    found: dict[str, torch.Tensor] = field(default_factory=dict)
    rng: torch.Tensor | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def encode(value: Any, tensors: list[torch.Tensor], depth: int = 0) -> Any:
    """Return the plain form of a nest; its tensors are appended to `tensors`, copied.

    Raises:
        NotPlainError: Something in it has none.
    """
    if depth > _MAX_DEPTH:
        raise NotPlainError("a nest of more than 32 levels")
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().cpu().clone(memory_format=torch.preserve_format))
        return {"tensor": len(tensors) - 1, "grad": value.requires_grad}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"float": repr(value)}

    def inner(item: Any) -> Any:
        return encode(item, tensors, depth + 1)

    if isinstance(value, torch.Size):
        return {"size": list(value)}
    if isinstance(value, tuple):
        return {"tuple": [inner(item) for item in value]}
    if isinstance(value, list):
        return {"list": [inner(item) for item in value]}
    if isinstance(value, slice):
        return {"slice": [inner(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, (dict, UserDict)):
        return {"dict": [[inner(key), inner(item)] for key, item in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"object": _path_of(type(value)), "fields": inner(fields)}
    for kind, known in _CONSTANTS.items():
        if str(value) in known and known[str(value)] is value:
            return {kind: str(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for name, function in _FUNCTIONS.items():
        if value is function:
            return {"function": name}
    if callable(value) and hasattr(value, "__qualname__") and hasattr(value, "__module__"):
        return {"code": _path_of(value)}
    raise NotPlainError(f"a {type(value).__name__}")


def decode(data: Any, tensors: list[torch.Tensor], look_up: Callable[[str], Any]) -> Any:
    """Return the nest of a plain form.

    Args:
        data: As `encode` gave it; may come from anybody.
        tensors: What its tensors are.
        look_up: Finds code by its dotted path, or refuses to.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(data, dict) or not data:
        raise ValueError("no plain value")
    kind = next(iter(data))
    item = data[kind]

    def inner(each: Any) -> Any:
        return decode(each, tensors, look_up)

    if kind == "tensor":
        tensor = tensors[item]
        return tensor.requires_grad_() if data.get("grad") else tensor
    if kind == "value":
        return item
    if kind == "float":
        return float(item)
    if kind == "size":
        return torch.Size(item)
    if kind in ("tuple", "list"):
        made = [inner(each) for each in item]
        return tuple(made) if kind == "tuple" else made
    if kind == "slice":
        return slice(*[inner(each) for each in item])
    if kind == "dict":
        return {inner(key): inner(each) for key, each in item}
    if kind == "object":
        made = look_up(item)
        again = object.__new__(made)
        for name, each in inner(data["fields"]).items():
            object.__setattr__(again, name, each)
        return again
    if kind in _CONSTANTS:
        return _CONSTANTS[kind][item]
    if kind == "device":
        return torch.device(item)
    if kind == "function":
        return _FUNCTIONS[item]
    if kind == "code":
        return look_up(item)
    raise ValueError(f"a plain value of kind {kind!r}")


def encode_module(
    module: torch.nn.Module, tensors: list[torch.Tensor], known: dict[int, int] | None = None
) -> dict[str, Any]:
    """Return the plain form of a module: classes, attributes, parameters and buffers.

    Tied tensors are one.

    Raises:
        NotPlainError: It holds something that has none.
    """
    known = {} if known is None else known

    def placed(tensor: torch.Tensor | None) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in known:
            encode(tensor, tensors)
            known[id(tensor)] = len(tensors) - 1
        return known[id(tensor)]

    attributes = {}
    for name, value in module.__dict__.items():
        if name in _BARE or name == "_compiled_call_impl":
            continue
        try:
            attributes[name] = encode(value, tensors)
        except NotPlainError as error:
            raise NotPlainError(f"{type(module).__name__}.{name} is {error}") from None
    return {
        "class": _path_of(type(module)),
        "training": module.training,
        "attributes": attributes,
        "parameters": {
            name: [placed(each), each is not None and each.requires_grad]
            for name, each in module._parameters.items()
        },
        "buffers": {name: placed(each) for name, each in module._buffers.items()},
        "modules": {
            name: None if each is None else encode_module(each, tensors, known)
            for name, each in module._modules.items()
        },
    }


def decode_module(
    spec: Mapping[str, Any], tensors: list[torch.Tensor], look_up: Callable[[str], Any]
) -> torch.nn.Module:
    """Return the module of a plain form; no constructor but that of `torch.nn.Module` runs.

    Raises:
        ValueError: It is none.
    """
    kind = look_up(spec["class"])
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise ValueError(f"{spec['class']} is no module")
    module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    module.training = bool(spec["training"])
    for name, value in spec["attributes"].items():
        if name in _BARE:
            raise ValueError(f"attribute {name} of {spec['class']}")
        module.__dict__[name] = decode(value, tensors, look_up)
    for name, (place, wanted) in spec["parameters"].items():
        if place is None:
            module.register_parameter(name, None)
        else:
            held = tensors[place]
            if not isinstance(held, torch.nn.Parameter):
                held = tensors[place] = torch.nn.Parameter(held, requires_grad=bool(wanted))
            module.register_parameter(name, held)
    for name, place in spec["buffers"].items():
        module.register_buffer(name, None if place is None else tensors[place])
    for name, inner in spec["modules"].items():
        part = None if inner is None else decode_module(inner, tensors, look_up)
        module.add_module(name, part)
    return module


def classes_of(spec: Mapping[str, Any]) -> set[str]:
    """Return the dotted paths of all classes of a module's plain form."""
    found = {str(spec["class"])}
    for inner in spec["modules"].values():
        if inner is not None:
            found |= classes_of(inner)
    return found


def finder(*, allow: bool) -> Callable[[str], Any]:
    """Return what finds code by its dotted path `module:qualname`.

    Args:
        allow: Import modules other than torch's own, too: this runs their code.
    """

    def find(path: str) -> Any:
        module = path.partition(":")[0]
        trusted = module.startswith(TRUSTED)
        if not trusted and not allow:
            raise ForeignCodeError(path)
        found = _found(path, importlib.import_module)
        if trusted and not allow and not _is_layer(found, module):
            raise ForeignCodeError(path)  # What torch's modules import is within reach, too.
        return found

    return find


def find_imported(path: str) -> Any:
    """Return code by its dotted path `module:qualname`, of what this process has imported already.

    Raises:
        ValueError: It is not there.
    """
    return _found(path, sys.modules.__getitem__)


def _found(path: str, module_of: Callable[[str], Any]) -> Any:
    module, _, name = path.partition(":")
    try:
        found = module_of(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not here ({error})") from error
    return found


def _is_layer(found: Any, module: str) -> bool:
    return (
        isinstance(found, type)
        and issubclass(found, torch.nn.Module)
        and found.__module__ == module
    )


def _path_of(code: Any) -> str:
    path = f"{code.__module__}:{code.__qualname__}"
    if "<" in path or code.__module__ in (None, "builtins"):
        raise NotPlainError(f"{code.__qualname__}, which has no name to be found by")
    return path
