"""The environment variable that switches `weights_only` off, in Python and in other text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.source.texts import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module
    from everybit.source.texts import Text

VARIABLE: Final = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
#: What torch takes for true, lower-cased.
_TRUE: Final = frozenset({"1", "y", "yes", "true"})
_VALUE: Final = r"""["']?(?:1|y|yes|true)["']?(?![\w.])"""
#: `NAME=1` where it is set: at the head of a command, after `export`, `env`, `-e`, `ENV`.
_ASSIGNED: Final = re.compile(rf"(?:^|[\s;&|('\"=,])(?:{VARIABLE})\s*=\s*{_VALUE}", re.IGNORECASE)
_KEYED: Final = re.compile(
    rf"""["']?{VARIABLE}["']?\s*:\s*{_VALUE}\s*(?:[#,}}].*)?$""", re.IGNORECASE
)
_SPACED: Final = re.compile(
    rf"(?:^|\s)(?:ENV|setenv|set\s+-\w*x\w*)\s+{VARIABLE}\s+{_VALUE}", re.IGNORECASE
)
_BY_MAGIC: Final = re.compile(rf"^%(?:set_)?env\s+{VARIABLE}[\s=]+{_VALUE}", re.IGNORECASE)
_NAMED: Final = re.compile(
    rf"""name\s*:\s*["']?{VARIABLE}\b["']?\s*(?:,\s*value\s*:\s*{_VALUE})?"""
)
_VALUED: Final = re.compile(rf"^\s*(?:-\s*)?value\s*:\s*{_VALUE}\s*(?:#.*)?$", re.IGNORECASE)
#: Commands that only print.
_PRINTING: Final = re.compile(r"^\s*(?:[-+@]?\s*)?(?:echo|printf|print|log|unset)\b", re.IGNORECASE)
#: What they print goes to a file that sets variables for what follows.
_INTO_FILE: Final = re.compile(r"(?<![-=])>>?\s*[\"'$~./{\w]|\|\s*(?:sudo\s+)?tee\b")
_SHELLS: Final = ("os.system", "os.popen", "subprocess.")


def set_in_text(text: Text) -> Iterator[tuple[int, int]]:
    """Yield the lines and columns, from 1, that set the variable to a true value."""
    lines = list(text.lines)
    for index, (number, line) in enumerate(lines):
        if VARIABLE not in line:
            continue
        code = _without_comment(line)
        column = line.index(VARIABLE) + 1
        if VARIABLE not in code or _only_prints(code):
            continue
        keyed = text.kind in (Kind.YAML, Kind.TOML) and _KEYED.search(code.rstrip())
        if _ASSIGNED.search(code) or _SPACED.search(code) or keyed:
            yield number, column
        elif text.kind is Kind.YAML and _NAMED.search(code):
            near = [other for _, other in lines[max(0, index - 1) : index + 2]]
            if "value" in code or any(_VALUED.match(other) for other in near):
                yield number, column


def _only_prints(code: str) -> bool:
    """Return whether a command shows a text to people, and writes it nowhere else."""
    if _PRINTING.match(code) is None:
        return False
    return _INTO_FILE.search(code, max(code.find(VARIABLE), 0)) is None


def _without_comment(line: str) -> str:
    """Return a line up to a `#` that begins a comment: none inside quotes."""
    quote = ""
    for index, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1].isspace()):
            return line[:index]
    return line


def set_in_magics(module: Module) -> Iterator[int]:
    """Yield the lines of a notebook's text whose shell command or `%env` sets the variable."""
    for number, line in module.magics:
        if VARIABLE in line:
            code = _without_comment(line).lstrip().lstrip("!").lstrip()
            if _BY_MAGIC.search(code) or (_ASSIGNED.search(code) and not _only_prints(code)):
                yield number


def set_in_code(module: Module) -> Iterator[ast.AST]:
    """Yield the nodes of a file that set the variable to a true value."""
    if "WEIGHTS_ONLY" not in module.text:
        return
    for node in module.nodes(ast.Assign, ast.Dict, ast.Call):
        match node:
            case ast.Assign(targets=targets, value=value):
                keyed = [t for t in targets if isinstance(t, ast.Subscript)]
                if any(_is_name(module, t.slice) for t in keyed) and _is_true(module, value):
                    yield node
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if key is not None and _is_name(module, key) and _is_true(module, value):
                        yield key
            case ast.Call():
                yield from _by_call(module, node)
            case _:
                pass


def _by_call(module: Module, call: ast.Call) -> Iterator[ast.AST]:
    word = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if (
        word in ("setdefault", "putenv", "setenv", "__setitem__")
        and len(call.args) > 1
        and _is_name(module, call.args[0])
        and _is_true(module, call.args[1])
    ):
        yield call
    for keyword in call.keywords:
        if keyword.arg == VARIABLE and _is_true(module, keyword.value):
            yield call
    if any(name.startswith(_SHELLS) for name in module.resolve_all(call.func)):
        said = [
            node.value
            for node in ast.walk(call)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        if any(_ASSIGNED.search(each) and not _only_prints(each) for each in said):
            yield call


def _is_name(module: Module, node: ast.expr) -> bool:
    name = module.constants(node)
    return name.surely(VARIABLE) or name.surely(VARIABLE.encode())


def _is_true(module: Module, node: ast.expr) -> bool:
    values = module.constants(node).values
    texts = (v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values)
    return any(text.lower() in _TRUE for text in texts)
