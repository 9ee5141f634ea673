"""Modules made of text, for the tests of what names mean."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from everybit.source.project import Project
from everybit.source.reading import SourceFile

NOWHERE = Path("/nowhere/job/train.py")


def module_of(text):
    """Return a module of this text, in a project of its own."""
    text = textwrap.dedent(text)
    file = SourceFile(text=text, tree=ast.parse(text))
    return Project().add(file, NOWHERE, "train.py")


def written(folder, files):
    """Write `{name: text}` below a folder and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def called(text, line=None):
    """Return the names that the call on the last line (or on `line`) may mean."""
    module = module_of(text)
    last = line or max(node.lineno for node in module.call_nodes)
    return [site.name for site in module.calls() if site.node.lineno == last]
