"""Chat templates: Jinja programs that come with a tokenizer; the sandbox is not everywhere.

A template writes text. One that reaches for Python's own objects wants out of the language, and
where a loader renders it without a sandbox it gets there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

#: Attributes that lead from any object to all of Python.
_REACHES: Final = re.compile(
    r"__(?:class|globals|builtins|subclasses|mro|bases?|init|import|getattribute|dict|code|self|"
    r"module|closure|func|reduce(?:_ex)?|loader|spec)__|\bfunc_globals\b|\bgi_frame\b|\bf_globals\b|"
    r"\b(?:os\s*\.\s*(?:popen|system)|subprocess|popen|__import__)\s*[.(]"
)
#: Ways to write such a name so that a search for it fails.
_HIDDEN: Final = re.compile(
    r"\\x5f|\\u005f|\\137|['\"]_['\"]\s*[~*+]|['\"]__['\"]\s*[~+]|['\"]%c|\|\s*attr\s*\(|"
    r"['\"]__[a-z]{1,12}['\"]|['\"][a-z]{1,12}__['\"]",
    re.I,
)
_MAX_SHOWN: Final = 80


def tell_template(content: Content, walk: Walk, text: str, key: str) -> None:
    """Tell of a template that reaches for Python's own objects.

    Args:
        content: Where it stands.
        walk: Takes the finding.
        text: The template.
        key: What it is called there.
    """
    walk.outcome.count("chat templates")
    code = _code_of(text)
    reach = _REACHES.search(code)
    hidden = _HIDDEN.search(code)
    if reach is None and hidden is None:
        return
    found = reach or hidden
    assert found is not None
    shown = code[max(0, found.start() - 30) : found.end() + 30][:_MAX_SHOWN]
    walk.tell(
        content,
        f"has a chat template ({key}) that reaches for Python's own objects: {found[0]!r}",
        rule_id="PKL205",
        severity=Severity.ERROR if reach is not None else Severity.WARNING,
        key=key,
        around=shown,
        remedy="Do not render it; take the template of the model that it says to be.",
    )


def _code_of(text: str) -> str:
    """Return what stands between a template's braces: all else is only written out."""
    return "\n".join(re.findall(r"\{[{%](.*?)[%}]\}", text, re.S)) or ""
