"""Keras configs: layers that are Python functions, and classes that are imported by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

#: Layers whose config holds compiled Python, or names a function to call.
_FUNCTION_LAYERS: Final = frozenset({"Lambda", "TFOpLambda", "SlicingOpLambda"})
#: TensorFlow operators that are no Python of the model's own.
_OPERATORS: Final = frozenset({"TFOpLambda", "SlicingOpLambda"})
_HOMES: Final = frozenset(
    {"keras", "tensorflow", "tf_keras", "keras_nlp", "keras_hub", "keras_cv", "keras_tuner",
     "tensorflow_addons", "tensorflow_hub", "builtins", "keras_core"}
)  # fmt: skip
#: Modules whose functions run commands, code or files.
_DANGEROUS: Final = frozenset(
    {"os", "posix", "nt", "subprocess", "sys", "shutil", "importlib", "runpy", "pickle", "marshal",
     "ctypes", "socket", "pty", "code", "codeop", "builtins", "webbrowser", "commands", "pip"}
)  # fmt: skip
_SAFE_BUILTINS: Final = frozenset(
    {"function", "str", "int", "float", "bool", "list", "dict", "tuple", "set", "slice", "bytes",
     "NoneType", "type", "complex", "range", "ellipsis"}
)  # fmt: skip
_MAX_NODES: Final = 2_000_000
_MAX_LISTED: Final = 16


def tell_layers(content: Content, walk: Walk, value: Any) -> None:
    """Tell of layers and classes in a model's config that make Keras run code.

    Args:
        content: Where the config stands.
        walk: Takes the findings.
        value: The parsed config.
    """
    lambdas: list[str] = []
    imports: list[str] = []
    dangerous: list[str] = []
    waiting, seen = [value], 0
    while waiting and seen < _MAX_NODES:
        node = waiting.pop()
        seen += 1
        if isinstance(node, list):
            waiting.extend(node)
        if not isinstance(node, dict):
            continue
        waiting.extend(v for v in node.values() if isinstance(v, (dict, list)))
        name = node.get("class_name")
        if not isinstance(name, str):
            continue
        if name.rpartition(">")[2] in _FUNCTION_LAYERS - _OPERATORS or name == "__lambda__":
            lambdas.append(_name_of(node))
        module = node.get("module")
        if isinstance(module, str) and _is_class(node):
            target = _target(node, module, name)
            home = module.partition(".")[0]
            if home == "builtins" and target.rpartition(".")[2] in _SAFE_BUILTINS:
                continue
            if home in _DANGEROUS:
                dangerous.append(target)
            elif home not in _HOMES:
                imports.append(target)
    _tell(content, walk, lambdas, imports, dangerous)


def _is_class(node: dict[str, Any]) -> bool:
    return "config" in node or "registered_name" in node


def _target(node: dict[str, Any], module: str, name: str) -> str:
    """Return what would be imported: of a function it is the config that names it."""
    config = node.get("config")
    return (
        f"{module}.{config}"
        if name == "function" and isinstance(config, str)
        else f"{module}.{name}"
    )


def _name_of(node: dict[str, Any]) -> str:
    config = node.get("config")
    name = config.get("name") if isinstance(config, dict) else None
    return name if isinstance(name, str) else "lambda"


def _tell(
    content: Content, walk: Walk, lambdas: list[str], imports: list[str], dangerous: list[str]
) -> None:
    if dangerous:
        walk.tell(
            content,
            f"asks Keras to import {dangerous[0]}",
            rule_id="PKL201",
            certainty=Certainty.STRONG,
            names=dangerous[:_MAX_LISTED],
            remedy="Do not load it: no layer lives there.",
        )
    if lambdas:
        walk.tell(
            content,
            f"holds a Lambda layer ({lambdas[0]}): compiled Python that loading or calling it runs",
            rule_id="PKL205",
            layers=lambdas[:_MAX_LISTED],
            remedy="Keep Keras's `safe_mode` on; ask for a layer class in its place.",
        )
    if imports:
        walk.tell(
            content,
            f"asks Keras to import {imports[0]}, which is no part of it",
            rule_id="PKL205",
            severity=Severity.WARNING,
            names=sorted(set(imports))[:_MAX_LISTED],
        )
