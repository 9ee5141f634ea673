"""What makes a page self-contained: its files in it, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from everybit.report.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_file(name: str) -> Markup:
    """Return a style sheet or script of this package."""
    return Markup(files("everybit.report").joinpath(name).read_text(encoding="utf-8"))


def draw_head(title: str, style: str, scripts: Sequence[str]) -> Markup:
    """Return the head of a page: this page's own style and scripts and nothing else."""
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, scripts)),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style)),
    )


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Allow this page's own style and scripts and nothing else, no request of any kind."""
    allowed = " ".join(_hashed(script) for script in scripts)
    return (
        f"default-src 'none'; style-src {_hashed(style)}; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashed(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
