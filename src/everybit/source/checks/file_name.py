"""What a path expression says about the name of the file: constant, or new for every save."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.source.module import Module

#: Stands for a part of the name that is not constant.
HOLE: Final = "\0"
_MAX_DEPTH: Final = 8
_COUNTING: Final = re.compile(
    r"epoch|step|iter|round|batch|trial|fold(?!er)|seed|rank|count|idx|index|time|date|version|now"
    r"|stamp|uuid|hash|score|loss|acc|metric|\bnum|\bi\b|\bj\b|\bk\b|\bn\b|\bt\b|\bit\b|\bep\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """The last part of a path.

    Attributes:
        text: As far as it is constant; `HOLE` for each part that is not.
        counted: Whether a hole is filled by something that changes from save to save.
        words: All names and constants that the path is made of, in lower case.
    """

    text: str
    counted: bool = False
    words: str = ""

    @property
    def constant(self) -> bool:
        """Whether nothing of it changes."""
        return bool(self.text) and HOLE not in self.text

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.text.replace(HOLE, "*")


def file_name(module: Module, node: ast.expr, changing: frozenset[str]) -> FileName | None:
    """Return what is known of the name of a file, None where nothing is.

    Args:
        module: Of the expression.
        node: A path, or an open file.
        changing: Names that have another value in every turn of a loop around.
    """
    parts = _parts(module, node, changing, 0)
    if parts is None:
        return None
    text = re.split(r"[\\/]", parts.text)[-1]
    if not text.strip(HOLE):
        return None
    return FileName(text=text, counted=parts.counted, words=parts.words.lower())


def _parts(module: Module, node: ast.expr, changing: frozenset[str], depth: int) -> FileName | None:
    if depth > _MAX_DEPTH:
        return None

    def again(each: ast.expr) -> FileName | None:
        return _parts(module, each, changing, depth + 1)

    match node:
        case ast.Constant(value=str() as text):
            return FileName(text=text, words=text)
        case ast.JoinedStr(values=values):
            return _joined([_piece(module, each, changing, depth) for each in values])
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _joined(
                [again(left) or _hole(left, changing), again(right) or _hole(right, changing)]
            )
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            last = again(right)
            return _below(left, last, changing)
        case ast.BinOp(op=ast.Mod(), left=left, right=right):
            return _formatted(again(left), right, changing)
        case ast.Call(func=ast.Attribute(attr="format", value=value)):
            return _formatted(again(value), node, changing)
        case ast.Call(func=ast.Attribute(attr="join" | "joinpath"), args=[*_, last_node]):
            if isinstance(last_node, ast.Starred):
                return None
            return _below(node, again(last_node), changing)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
            name in ("str", "fspath", "Path", "PurePath", "abspath", "expanduser", "realpath")
        ):
            return again(node.args[-1] if name in ("Path", "PurePath") else first)
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open" | "fdopen")):
            return _opened(module, node, changing, depth)
        case ast.Name() | ast.Attribute():
            return _named(module, node, changing, depth)
        case _:
            return None


def _opened(
    module: Module, node: ast.Call, changing: frozenset[str], depth: int
) -> FileName | None:
    """Return the name of an open file: `open(path)` and `path.open()`."""
    names = module.resolve_all(node.func)
    if isinstance(node.func, ast.Attribute) and not any(n.endswith(".open") for n in names):
        return _parts(module, node.func.value, changing, depth + 1)
    return _parts(module, node.args[0], changing, depth + 1) if node.args else None


def _named(
    module: Module, node: ast.Name | ast.Attribute, changing: frozenset[str], depth: int
) -> FileName | None:
    values = [value for value in module.constants(node).values if isinstance(value, str)]
    if len(values) == 1:
        return FileName(text=values[0], words=values[0])
    found = [
        _parts(module, each, changing, depth + 1)
        for each in module.definitions(node)
        if each is not node
    ]
    if len(found) != 1 or found[0] is None:
        return None
    only = found[0]
    return FileName(text=only.text, counted=only.counted, words=f"{only.words} {ast.unparse(node)}")


def _piece(module: Module, node: ast.expr, changing: frozenset[str], depth: int) -> FileName | None:
    if isinstance(node, ast.FormattedValue):
        found = _parts(module, node.value, changing, depth + 1)
        return found or _hole(node.value, changing)
    return _parts(module, node, changing, depth + 1)


def _hole(node: ast.expr, changing: frozenset[str]) -> FileName:
    text = ast.unparse(node)
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    counted = bool(names & changing) or _COUNTING.search(text) is not None
    return FileName(text=HOLE, counted=counted, words=text)


def _joined(parts: list[FileName | None]) -> FileName | None:
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    text = "".join(part.text for part in known)
    # What counts in a folder's name, or before the last slash, changes the file as well.
    return FileName(
        text=text,
        counted=any(part.counted for part in known),
        words=" ".join(part.words for part in known),
    )


def _below(folder: ast.expr, last: FileName | None, changing: frozenset[str]) -> FileName | None:
    """Return a name inside a folder: one that counts makes every save a file of its own."""
    if last is None:
        return None
    hole = _hole(folder, changing)
    return FileName(
        text=last.text, counted=last.counted or hole.counted, words=f"{last.words} {hole.words}"
    )


def _formatted(
    pattern: FileName | None, values: ast.expr, changing: frozenset[str]
) -> FileName | None:
    if pattern is None:
        return None
    text = re.sub(r"\{[^}]*\}|%[-+ #0]*\d*(?:\.\d+)?[a-z]", HOLE, pattern.text)
    hole = _hole(values, changing)
    return FileName(text=text, counted=hole.counted, words=f"{pattern.words} {hole.words}")
