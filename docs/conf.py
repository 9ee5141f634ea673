"""How the site is built: `sphinx-build -W docs docs/_build`. Warnings are errors in CI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.errors import ExtensionError

import everybit
from everybit.api.diff import diff
from everybit.api.report import report

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Packages that answer a call as the verb of their name; autodoc wants the verb itself.
vars(everybit).update(diff=diff, report=report)

project = "everybit"
author = "everybit's authors"
version = release = everybit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "literal"  # docstrings write code as Markdown does
add_module_names = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"everybit {release}"
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
pygments_style = "default"
pygments_dark_style = "github-dark"

# What a browser would fetch by itself; links that a reader follows are no request.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//"""
)


def refuse_requests(app: Sphinx, error: Exception | None) -> None:
    """Fail the build where a page would fetch anything from another host when it is viewed."""
    if error is not None:
        return
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            found = _FETCHED.search(path.read_text(encoding="utf-8"))
            if found:
                raise ExtensionError(f"{path.relative_to(app.outdir)} fetches: {found[0]}")


def setup(app: Sphinx) -> None:
    """Connect the build's own check."""
    app.connect("build-finished", refuse_requests)
