"""ONNX models: where their weights lie outside, and operators that come from elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.scans.names import name_problem
from everybit.files.scans.protobuf import Field, Reader, WireError

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource

_MAX_FIELDS: Final = 5_000_000
_MAX_SNIFFED: Final = 10_000
_MAX_DEPTH: Final = 32
_MAX_LISTED: Final = 16
#: Fields of a model: the numbers that its messages give them.
_IR_VERSION, _GRAPH, _OPSETS, _FUNCTIONS, _TRAINING = 1, 7, 8, 25, 20
_NODE, _INITIALIZER, _SPARSE = 1, 5, 15
_BYTES: Final = 2
#: Where messages of each kind hold messages that may hold a tensor, a node or a graph.
_HOLDS: Final[dict[str, dict[int, str]]] = {
    "model": {_GRAPH: "graph", _FUNCTIONS: "function", _TRAINING: "training"},
    "training": {1: "graph", 2: "graph"},
    "graph": {_NODE: "node", _INITIALIZER: "tensor", _SPARSE: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA: Final = 13
_STANDARD: Final = frozenset(
    {
        "", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training",
        "com.microsoft",
        "com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc",
        "org.pytorch.aten", "org.pytorch._c10d_functional", "pkg.onnxscript.torch_lib",
        "pkg.onnxscript.torch_lib.common", "pkg.torch", "ai.onnx.contrib",
    }
)  # fmt: skip
#: Operators of the standard's neighbours that run Python, where the host allows it.
_PYTHON: Final = frozenset({"PyOp", "PythonOp", "PyCustomOp", "ATen"})


@dataclass(slots=True, kw_only=True)
class _Model:
    """What was found in a model."""

    locations: dict[str, str] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    python: list[str] = field(default_factory=list)


def is_onnx(source: ByteSource) -> bool:
    """Return whether the bytes are a message with the fields of a model, from end to end."""
    seen: set[int] = set()
    try:
        for each in Reader(source, most=_MAX_SNIFFED).fields(0, source.size):
            seen.add(each.number)
            if each.number in (_GRAPH, _OPSETS) and each.wire != _BYTES:
                return False
    except WireError:
        return _GRAPH in seen and bool(seen & {_IR_VERSION, _OPSETS})
    return _GRAPH in seen and bool(seen & {_IR_VERSION, _OPSETS})


def look_into_onnx(content: Content, walk: Walk) -> None:
    """Tell of weights outside the model's folder, and of operators from elsewhere."""
    walk.outcome.count("ONNX models")
    model = _Model()
    reader = Reader(content.source, most=_MAX_FIELDS)
    try:
        _read(reader, "model", 0, content.source.size, model, 0)
    except WireError as error:
        walk.closed(content, f"it cannot be read to its end: {error}")
    folder = content.source.path.parent if content.member is None else None
    _tell_locations(content, walk, model, folder)
    _tell_operators(content, walk, model)


def _read(reader: Reader, what: str, start: int, end: int, model: _Model, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise WireError("its graphs are nested too deeply")
    holds = _HOLDS.get(what, {})
    domain = operator = name = ""
    for each in reader.fields(start, end):
        if each.wire != _BYTES:
            continue
        if what == "tensor":
            if each.number == 8:
                name = reader.text(each, 256)
            elif each.number == _EXTERNAL_DATA:
                _read_location(reader, each, model, name)
        elif what == "node" and each.number == 4:
            operator = reader.text(each, 256)
        elif what == "node" and each.number == 7:
            domain = reader.text(each, 256)
        if each.number in holds:
            _read(reader, holds[each.number], each.start, each.end, model, depth + 1)
    if what == "node":
        if domain not in _STANDARD:
            model.domains.setdefault(domain, operator)
        if operator in _PYTHON and domain:
            model.python.append(f"{domain}.{operator}")


def _read_location(reader: Reader, entry: Field, model: _Model, name: str) -> None:
    key = value = ""
    for part in reader.fields(entry.start, entry.end):
        if part.number == 1:
            key = reader.text(part, 64)
        elif part.number == 2:
            value = reader.text(part)
    if key == "location" and len(model.locations) < 100_000:
        model.locations.setdefault(value, name)


def _tell_locations(content: Content, walk: Walk, model: _Model, folder: Path | None) -> None:
    odd = {}
    for location, tensor in model.locations.items():
        problem = _problem(location, folder)
        if problem:
            odd[location] = f"{problem} (tensor {tensor})" if tensor else problem
    if not odd:
        return
    first = next(iter(odd))
    walk.tell(
        content,
        f"asks for weights from {first!r}, which {odd[first]}",
        severity=Severity.ERROR,
        trick="external data",
        locations=dict(list(odd.items())[:_MAX_LISTED]),
        remedy="Do not load it: it makes its loader read a file that is not the model's.",
    )


def _problem(location: str, folder: Path | None) -> str:
    if location.startswith(("file:", "http:", "https:", "~")):
        return "is no file in its folder"
    problem = name_problem(location)
    if problem or folder is None:
        return problem
    place = folder / location
    real = os.path.realpath(place)
    inside = os.path.realpath(folder)
    if place.is_symlink() and not real.startswith(inside + os.sep):
        # A download cache keeps its files behind links of its own.
        parts = Path(real).parts
        return "" if "blobs" in parts or "snapshots" in parts else "is a link that leads elsewhere"
    return ""


def _tell_operators(content: Content, walk: Walk, model: _Model) -> None:
    if model.python:
        walk.tell(
            content,
            f"asks for the operator {model.python[0]}, which runs Python",
            rule_id="PKL205",
            operators=sorted(set(model.python))[:_MAX_LISTED],
        )
    if model.domains:
        first = next(iter(model.domains))
        walk.tell(
            content,
            f"asks for operators of {first!r}, such as {model.domains[first]}: they come with a "
            "library of their own",
            rule_id="PKL205",
            severity=Severity.NOTE,
            domains=list(model.domains)[:_MAX_LISTED],
            remedy="It runs only where that library is installed; see who wrote it.",
        )
