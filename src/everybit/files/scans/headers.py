"""safetensors: a header of names and places, and no code at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.damage import MalformedError

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk


def look_into_safetensors(content: Content, walk: Walk) -> None:
    """Read the header: what cannot be right in it is damage, as `verify` tells it."""
    from everybit.files.formats.safetensors import read_structure

    walk.outcome.count("headers")
    try:
        for damage in read_structure(content.source).damages:
            walk.damaged(content, damage)
    except MalformedError as error:
        walk.damaged(content, error.damage)
