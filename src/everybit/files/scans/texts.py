"""Texts that a loader runs or builds objects from, and compiled code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.scans.names import TEMPLATES, YAML, is_model

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

_MAX_BYTES: Final = 16 * 1024 * 1024
#: YAML tags that make PyYAML's unsafe loaders import and call.
_TAGS: Final = (
    rb"!!python/(object/apply|object/new|object|name|module)[:/ ]([\w.]*)"
    rb"|tag:yaml\.org,2002:python/(object/apply|object/new|object|name|module):([\w.]*)"
)
_MAX_LISTED: Final = 16


def look_into_text(content: Content, walk: Walk) -> None:
    """Judge a text that is a template or builds objects; all others are only text."""
    name = content.name.lower()
    template = name.endswith(TEMPLATES)
    if not template and not name.endswith(YAML):
        return
    data = content.source.read(0, _MAX_BYTES)
    if content.source.size > _MAX_BYTES:
        walk.closed(content, f"it is a text of more than {_MAX_BYTES >> 20} MiB")
    if template:
        from everybit.files.scans.templates import tell_template

        tell_template(content, walk, data.decode("utf-8", "replace"), content.name)
        return
    walk.outcome.count("YAML files")
    found = [
        (match[1] or match[3]).decode() + " " + (match[2] or match[4] or b"").decode()
        for match in re.finditer(_TAGS, data)
    ]
    if found:
        calls = any(each.startswith(("object/apply", "object/new")) for each in found)
        walk.tell(
            content,
            f"asks an unsafe YAML loader to build {found[0]}",
            rule_id="PKL205",
            severity=Severity.WARNING if calls else Severity.NOTE,
            tags=found[:_MAX_LISTED],
            remedy="Read it with `yaml.safe_load`, which refuses it.",
        )


def look_into_native(content: Content, walk: Walk) -> None:
    """Tell of compiled code under a model's name; in an archive that one tells who runs it."""
    walk.outcome.count("compiled libraries")
    if is_model(content.name):
        walk.warn(
            content,
            "is compiled code under the name of a model",
            remedy="Do not load or run it; ask its author what it is.",
        )
