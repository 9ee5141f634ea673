"""Configs in JSON: which of them ask a loader to run code that lies beside them, or elsewhere."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from everybit.files.scans.json_pickles import MARKS, look_into_spelled, look_into_strings
from everybit.files.scans.names import name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

#: A larger file is no config; what it holds is looked at in pieces.
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_NODES: Final = 2_000_000
_MAX_LISTED: Final = 16
_KERNEL_KEY: Final = re.compile(r"_?(?:attn|experts|mlp|moe)_implementation(?:_internal)?")
#: Words without which none of the questions below can have an answer. A JSON escape can spell a
#: letter, so one of those asks for a closer look too.
_WORDS: Final = re.compile(
    rb"auto_map|chat_template|class_name|custom_pipelines|auto_mapping|_target_|\"type\"|"
    rb"parent_library|_implementation|weight_map|:serialized:|\\u00[2-7]"
)
#: Libraries that a config may name as the home of a class.
_KNOWN_HOMES: Final = frozenset(
    {"transformers", "peft", "diffusers", "torch", "timm", "sentence_transformers", "keras",
     "tensorflow", "tf_keras", "keras_nlp", "keras_hub", "keras_cv", "onnxruntime"}
)  # fmt: skip


def look_into_json(content: Content, walk: Walk) -> None:
    """Tell what a config asks for."""
    source = content.source
    if source.size > _MAX_BYTES:
        for piece in _pieces(content):
            if any(mark in piece for mark in (b"auto_map", b"chat_template", *MARKS)):
                walk.closed(content, "it is a config of more than 64 MiB")
                return
        return
    data = source.read(0, source.size)
    if MARKS[0] in data:
        look_into_strings(content, walk, data)
    if not _WORDS.search(data):
        walk.outcome.count("configs")
        return
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        if content.name.endswith(".json") and isinstance(error, RecursionError):
            walk.closed(content, "it is nested too deeply")
        return
    walk.outcome.count("configs")
    look_into_spelled(content, walk, value, data)
    look_into_value(content, walk, value)


def _pieces(content: Content) -> Iterator[bytes]:
    last = b""
    for chunk in content.source.chunks():
        data = bytes(chunk)
        yield last + data
        last = data[-64:]


def look_into_value(content: Content, walk: Walk, value: Any) -> None:
    """Tell what a parsed config asks for."""
    _tell_auto_map(content, walk, value)
    _tell_kernels(content, walk, value)
    _tell_shards(content, walk, value)
    _tell_modules(content, walk, value)
    _tell_templates(content, walk, value)
    if isinstance(value, dict) and ("class_name" in value or "config" in value):
        from everybit.files.scans.keras import tell_layers

        tell_layers(content, walk, value)


def _every_dict(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    seen = 0
    while waiting and seen < _MAX_NODES:
        node = waiting.pop()
        seen += 1
        if isinstance(node, dict):
            yield node
            waiting.extend(v for v in node.values() if isinstance(v, (dict, list)))
        elif isinstance(node, list):
            waiting.extend(v for v in node if isinstance(v, (dict, list)))


def _tell_auto_map(content: Content, walk: Walk, value: Any) -> None:
    """Tell of classes that Transformers would import from files of the model's own."""
    named: dict[str, str] = {}
    for node in _every_dict(value):
        for name, key in _classes_in(node):
            named.setdefault(name, key)
    if named:
        _tell_code(content, walk, named, "auto_map")


def _classes_in(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the classes of the model's own that one dictionary names, each with its key."""
    auto_map = node.get("auto_map")
    if isinstance(auto_map, str):
        yield auto_map, "auto_map"
    elif isinstance(auto_map, dict):
        for key, classes in auto_map.items():
            for each in classes if isinstance(classes, list) else [classes]:
                if isinstance(each, str) and each:
                    yield each, str(key)
    pipelines = node.get("custom_pipelines")
    for pipeline in pipelines.values() if isinstance(pipelines, dict) else ():
        if isinstance(pipeline, dict) and isinstance(pipeline.get("impl"), str):
            yield pipeline["impl"], "custom_pipelines"


def _tell_code(content: Content, walk: Walk, named: dict[str, str], asks: str) -> None:
    folder = content.source.path.parent if content.member is None else None
    elsewhere = sorted({name.partition("--")[0] for name in named if "--" in name})
    files = sorted({_file_of(name) for name in named if "--" not in name})
    there = [name for name in files if folder is not None and _is_there(folder, name)]
    missing = [name for name in files if name not in there] if folder is not None else []
    if elsewhere:
        told = f"asks its loader to run code of another repository: {elsewhere[0]}"
    elif there or folder is None:
        told = f"asks its loader to run code that comes with it: {(there or files)[0]}"
    else:
        told = f"asks its loader to run code that is not here: {files[0]}"
    walk.tell(
        content,
        f"{told} ({asks})",
        rule_id="PKL205",
        classes=dict(list(named.items())[:_MAX_LISTED]),
        files=there[:_MAX_LISTED],
        missing=missing[:_MAX_LISTED],
        repositories=elsewhere[:_MAX_LISTED],
    )


def _file_of(name: str) -> str:
    module = name.rpartition(".")[0] or name
    return module.replace(".", "/") + ".py"


def _is_there(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):
        return False


def _tell_kernels(content: Content, walk: Walk, value: Any) -> None:
    """Tell of kernels that Transformers would fetch from a repository and import."""
    named = {
        text: key
        for node in _every_dict(value)
        for key, text in node.items()
        if isinstance(text, str) and _KERNEL_KEY.fullmatch(key) and "/" in text
    }
    if named:
        first = next(iter(named))
        walk.tell(
            content,
            f"asks its loader to run a kernel of another repository: {first} ({named[first]})",
            rule_id="PKL205",
            repositories=list(named)[:_MAX_LISTED],
        )


def _tell_shards(content: Content, walk: Walk, value: Any) -> None:
    """Tell of an index that sends its loader to files outside the folder."""
    shards = value.get("weight_map") if isinstance(value, dict) else None
    names = (
        {name for name in shards.values() if isinstance(name, str)}
        if isinstance(shards, dict)
        else set()
    )
    odd = {name: name_problem(name) for name in sorted(names) if name_problem(name)}
    if odd:
        first = next(iter(odd))
        walk.tell(
            content,
            f"sends its loader to {first!r}, which {odd[first]}",
            trick="index",
            files=dict(list(odd.items())[:_MAX_LISTED]),
            remedy="Do not load by it: fetch the index again from its source.",
        )


def _tell_modules(content: Content, walk: Walk, value: Any) -> None:
    """Tell of classes that sentence-transformers, PEFT, diffusers or hydra would import by name."""
    named = dict(_homes_in(content.name, value))
    if named:
        _tell_code(content, walk, named, next(iter(named.values())))


def _homes_in(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the classes outside known libraries that a config names, each with its key."""
    if name == "modules.json" and isinstance(value, list):
        for node in value:
            kind = node.get("type") if isinstance(node, dict) else None
            if isinstance(kind, str) and _is_foreign(kind):
                yield kind, "type"
    if not isinstance(value, dict):
        return
    mapping = value.get("auto_mapping")
    if isinstance(mapping, dict):
        home = mapping.get("parent_library")
        if isinstance(home, str) and _is_foreign(home):
            yield f"{home}.{mapping.get('base_model_class')}", "auto_mapping"
    if name == "model_index.json":
        for key, parts in value.items():
            pair = isinstance(parts, list) and len(parts) == 2 and isinstance(parts[0], str)
            if pair and _is_foreign(parts[0]):
                yield f"{parts[0]}.{parts[1]}", key


def _is_foreign(name: str) -> bool:
    return name.partition(".")[0] not in _KNOWN_HOMES


def _tell_templates(content: Content, walk: Walk, value: Any) -> None:
    if not isinstance(value, dict):
        return
    from everybit.files.scans.templates import tell_template

    template = value.get("chat_template")
    if isinstance(template, str):
        tell_template(content, walk, template, "chat_template")
    elif isinstance(template, dict):
        for key, text in template.items():
            if isinstance(text, str):
                tell_template(content, walk, text, f"chat_template.{key}")
    elif isinstance(template, list):
        for item in template:
            if isinstance(item, dict) and isinstance(item.get("template"), str):
                key = f"chat_template.{item.get('name')}"
                tell_template(content, walk, item["template"], key)
