"""How the training rules walk code: bodies, order, conditions, and names as they are written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.source.module import Module

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While

LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OWN: Final = (*_FUNCTIONS, ast.ClassDef)

#: Calls that give the items of their argument, in its order: `for x in tqdm(loader)`.
_PASSING: Final = frozenset(
    {"enumerate", "tqdm", "iter", "islice", "track", "progress_bar", "list", "zip", "reversed"}
)


def inside(nodes: ast.AST | Iterable[ast.AST], *, nested: bool = False) -> Iterator[ast.AST]:
    """Yield nodes and all below them in the order of the text.

    Args:
        nodes: Where to begin.
        nested: Whether to go into functions and classes that are defined inside.
    """
    start = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    waiting = list(reversed(start))
    roots = set(map(id, start))
    while waiting:
        node = waiting.pop()
        yield node
        if not nested and isinstance(node, _OWN) and id(node) not in roots:
            continue
        waiting += reversed(list(ast.iter_child_nodes(node)))


def bodies(module: Module) -> Iterator[ast.Module | FunctionNode]:
    """Yield the module and each function of it: what runs as one piece."""
    yield module.tree
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls_in(nodes: ast.AST | Iterable[ast.AST], *, nested: bool = False) -> Iterator[ast.Call]:
    """Yield the calls below some nodes in the order of the text."""
    return (node for node in inside(nodes, nested=nested) if isinstance(node, ast.Call))


def body_around(module: Module, node: ast.AST) -> ast.AST:
    """Return the function (or module) that a node runs in."""
    while (parent := module.parents.get(node)) is not None:
        node = parent
        if isinstance(node, _FUNCTIONS):
            break
    return node


def loops_around(module: Module, node: ast.AST) -> list[Loop]:
    """Return the loops that repeat a node, within its own function, the innermost first."""
    found: list[Loop] = []
    child = node
    while (parent := module.parents.get(child)) is not None and not isinstance(parent, _OWN):
        if isinstance(parent, ast.While) or (
            isinstance(parent, ast.For | ast.AsyncFor)
            and child is not parent.iter
            and not any(child is each for each in parent.orelse)
        ):
            found.append(parent)
        child = parent
    return found


def place(node: ast.AST) -> tuple[int, int]:
    """Return where a node begins."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def end(node: ast.AST) -> tuple[int, int]:
    """Return where a node ends."""
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0


def written(node: ast.AST) -> str | None:
    """Return a dotted name as it is written: `self.model`; None for anything else."""
    parts: list[str] = []
    owner = node
    while isinstance(owner, ast.Attribute):
        parts.append(owner.attr)
        owner = owner.value
    if not isinstance(owner, ast.Name):
        return None
    return ".".join([owner.id, *reversed(parts)])


def last_word(node: ast.AST) -> str:
    """Return the last word of a name or attribute, "" for anything else.

    >>> last_word(ast.parse("a.b.c", mode="eval").body)
    'c'
    """
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST) -> set[str]:
    """Return the plain names that occur in an expression."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def bound_in(loop: Loop) -> set[str]:
    """Return the names, also dotted ones, that a loop binds each round."""
    targets: list[ast.AST] = []
    for node in inside(loop, nested=True):
        match node:
            case ast.Assign():
                targets += node.targets
            case ast.AnnAssign() | ast.NamedExpr() | ast.For() | ast.AsyncFor():
                targets.append(node.target)
            case ast.withitem(optional_vars=ast.expr() as entered):
                targets.append(entered)
            case _:
                pass
    found: set[str] = set()
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Starred):
            targets.append(target.value)
        elif (name := written(target)) is not None:
            found.add(name)
    return found


def conditions(module: Module, node: ast.AST) -> list[tuple[ast.If, bool]]:
    """Return the `if` statements that decide on a node in its function, and which branch it is."""
    found: list[tuple[ast.If, bool]] = []
    child = node
    while (parent := module.parents.get(child)) is not None and not isinstance(parent, _OWN):
        if isinstance(parent, ast.If) and child is not parent.test:
            found.append((parent, any(child is each for each in parent.body)))
        child = parent
    return found


def exclude(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether two nodes of a function lie in branches of which only one runs."""
    of_first = dict(conditions(module, first))
    return any(of_first.get(node, branch) != branch for node, branch in conditions(module, second))


def precedes(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether a node can run before another one in a single pass through their function."""
    return end(first) <= place(second) and not exclude(module, first, second)


def unrelated(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether tests on the same names may keep two nodes from both being run.

    `if amp: a()` and later `if not amp: b()`: what decides on the one decides on the other as
    well, in another way. So they are not known to follow each other.
    """
    shared = dict(conditions(module, second))
    return any(
        names_in(node.test) & names_in(other.test)
        for node, branch in conditions(module, first)
        if shared.get(node) is not branch
        for other in shared
        if ast.dump(node.test) != ast.dump(other.test) or shared[other] is not branch
    )


def iterated(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions whose items a loop goes through: `loader` of `enumerate(loader)`."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, ast.Call) and last_word(each.func) in _PASSING:
            waiting += [arg for arg in each.args if not isinstance(arg, ast.Starred)]


def possible(module: Module, node: ast.expr) -> tuple[ast.expr, ...]:
    """Return the expressions that an expression may stand for; itself where none is known."""
    return module.definitions(node) or (node,)


def words_of(node: ast.AST) -> list[str]:
    """Return the words that a node itself brings."""
    match node:
        case ast.Attribute(attr=word) | ast.Name(id=word) | ast.keyword(arg=str() as word):
            return [word]
        case ast.Constant(value=str() as text) if len(text) < 60:
            return [text]
        case _:
            return []
