"""Foreign strings made harmless: names, messages and arguments that go to a terminal or a page."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

#: Longer names are cut in the middle, where they differ least from their siblings.
NAME_LIMIT: Final = 160
MESSAGE_LIMIT: Final = 2000

# Control, format (bidi overrides too), surrogate, private and unassigned characters, line and
# paragraph separators: none of them may reach a terminal as it is.
_HIDDEN: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: object, limit: int = NAME_LIMIT) -> str:
    r"""Return `text` on one line with every invisible or control character spelled out.

    Args:
        text: Anything; its `str` is taken.
        limit: Most characters of it to show; more are cut from the middle.

    >>> printable("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    # Cut first: a name may be megabytes long.
    source = shorten(str(text), limit)
    if source.isascii() and source.isprintable():
        return source
    return "".join(_spell(c) if unicodedata.category(c) in _HIDDEN else c for c in source)


def printable_message(text: object, limit: int = MESSAGE_LIMIT) -> str:
    r"""Return prose on one line: white space folded, the rest as `printable`.

    >>> printable_message("line one\n  line two")
    'line one line two'
    """
    return printable(" ".join(str(text)[: 4 * limit].split()), limit)


def shorten(text: str, limit: int) -> str:
    """Cut the middle out of a text longer than `limit` characters.

    >>> shorten("abcdefghijkl", 9)
    'abc...jkl'
    """
    if len(text) <= limit:
        return text
    keep = max(limit - 3, 2)
    head = keep - keep // 2
    return f"{text[:head]}...{text[len(text) - keep // 2 :]}"


def for_encoding(text: str, encoding: str) -> str:
    r"""Return `text` with what `encoding` cannot hold spelled out as backslash escapes.

    >>> for_encoding("naïve", "ascii")
    'na\\xefve'
    """
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")


def can_draw(encoding: str, characters: str) -> bool:
    """Return whether `encoding` holds all of `characters`."""
    try:
        characters.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def plural(count: int, noun: str) -> str:
    """Return `count` with its noun.

    >>> plural(1, "error"), plural(1200, "step")
    ('1 error', '1,200 steps')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: Any) -> str:
    """Return a number short enough to compare by eye, or any other value's text.

    >>> number(0.1234567891), number(-4.2e36), number(12), number("NaN")
    ('0.123457', '-4.2e+36', '12', 'NaN')
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(value, 48)


def _spell(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
