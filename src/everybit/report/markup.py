"""HTML and SVG by construction: every string is escaped unless it was built here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from everybit.report.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_VOID: Final = {"br", "col", "hr", "img", "input", "link", "meta"}


class Markup(str):
    """Text that is HTML already; made by `tag`, `join` and files of this package only."""

    __slots__ = ()


#: What a tag may hold: markup as it is, other values as escaped text, None as nothing.
Child = object


def text(value: object, limit: int = 4000) -> Markup:
    r"""Return a value as escaped text, control characters spelled out.

    >>> text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    if isinstance(value, Markup):
        return value
    return Markup(escape(printable(value, limit), quote=True))


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: Element name; never foreign.
        children: Markup, values to escape, None, or lists of them.
        attributes: `class_` loses its underscore, other `_` turn to `-`. True gives
            a bare attribute; None and False leave it out. Values are escaped.

    >>> tag("a", "1 < 2", href="#x", class_="k", title=None)
    '<a href="#x" class="k">1 &lt; 2</a>'
    """
    opened = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{join(children)}</{name}>")


def join(children: Iterable[Child], separator: str = "") -> Markup:
    """Return the children one after the other, escaped where they are not markup."""
    return Markup(separator.join(_flat(children)))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, list | tuple):
            yield from _flat(child)
        else:
            yield text(child)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, float):
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    return f' {name}="{text(value)}"'
