"""SRC307: a load with `strict=False` whose list of keys left out is dropped."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.source.calls import CallSite
from everybit.source.checks.flow import body_around, inside, last_word, possible, written
from everybit.source.hit import Hit
from everybit.source.meaning import Defined
from everybit.source.scopes import parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC307"
WORDS: Final = ("load_state_dict", "load_model", "set_model_state_dict", "set_state_dict")

_STATE_DICT: Final = "torch.distributed.checkpoint.state_dict"
#: Functions that return the keys left out, with the places of model, state and `strict`.
_FUNCTIONS: Final = {
    "safetensors.torch.load_model": (0, 1, 2),
    f"{_STATE_DICT}.set_model_state_dict": (0, 1, None),
    f"{_STATE_DICT}.set_state_dict": (0, None, None),
}
#: Words of code that tells how much of the keys it loads.
_TELLING: Final = frozenset({"len", "print", "warning", "warn", "error", "info", "debug", "log"})


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each lenient load whose result nobody looks at."""
    bodies: dict[ast.AST, _Body] = {}
    for call in module.call_nodes:
        if last_word(call.func) not in WORDS and module.resolve(call.func) not in _FUNCTIONS:
            continue
        around = body_around(module, call)
        if around not in bodies:
            bodies[around] = _Body(around)
        if not _is_dropped(module, call, bodies[around]):
            continue
        found = _lenient(module, call)
        if found is None:
            continue
        model, state = found
        if state is not None and (_is_live(module, state) or bodies[around].compares(state)):
            continue
        chosen = _is_explained(module, call) or _is_handed_in(module, call, state)
        yield _hit(module, call, model, state, chosen=chosen)


def _lenient(module: Module, call: ast.Call) -> tuple[str, ast.expr | None] | None:
    """Return model and state of a load that leaves keys out without an error, else None."""
    given = tuple(module.resolver.given(call))
    if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict":
        names = module.resolve_all(call.func)
        if any(name.startswith("torch.optim.") for name in names) or _returns_nothing(module, call):
            return None
        site = CallSite(module=module, node=call, name="load_state_dict", given=given)
        if not site.argument("strict", 1).surely(value=False):
            return None
        owner = call.func.value
        if isinstance(owner, ast.Call) and last_word(owner.func) == "super":
            return None  # a loader of its own, which answers for its keys
        model = written(owner) or module.source(owner)
        return model, site.argument("state_dict", 0).node
    name = module.resolve(call.func)
    if name not in _FUNCTIONS:
        return None
    site = CallSite(module=module, node=call, name=name, given=given)
    model_at, state_at, strict_at = _FUNCTIONS[name]
    lenient = (
        site.argument("strict", strict_at).surely(value=False)
        if strict_at is not None
        else _lenient_options(module, site)
    )
    if not lenient:
        return None
    target = site.argument("model", model_at).node
    model = (written(target) or module.source(target)) if target is not None else "model"
    return model, site.argument("state", state_at).node if state_at is not None else None


def _returns_nothing(module: Module, call: ast.Call) -> bool:
    """Whether the project's own method is called, which gives no keys and asks none for any."""
    meanings = module.resolver.meanings(call.func)
    return bool(meanings) and all(
        isinstance(meaning, Defined)
        and isinstance(meaning.node, ast.FunctionDef)
        and not meaning.module.returns(meaning.node)
        and not any(
            last_word(each.func) == "load_state_dict"
            for each in meaning.module.calls_within(meaning.node)
        )
        for meaning in meanings
    )


def _lenient_options(module: Module, site: CallSite) -> bool:
    """Whether `options=StateDictOptions(strict=False)` is given."""
    options = site.argument("options").node
    if options is None:
        return False
    made = [each for each in possible(module, options) if isinstance(each, ast.Call)]
    return bool(made) and all(
        last_word(call.func) == "StateDictOptions"
        and CallSite(module=module, node=call, name="", given=tuple(module.resolver.given(call)))
        .argument("strict")
        .surely(value=False)
        for call in made
    )


class _Body:
    """What a function reads and reports.

    Args:
        node: The function, or the module.
    """

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        self.reads: set[str] = set()
        self._told: set[str] = set()
        self._differs = False
        for each in inside([node], nested=True):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self.reads.add(each.id)
            if isinstance(each, ast.Name | ast.Attribute) and _is_a_difference(each):
                self._differs = True
            if isinstance(each, ast.Call) and last_word(each.func) in _TELLING:
                self._told |= {
                    name for arg in each.args for part in ast.walk(arg) if (name := written(part))
                }

    def compares(self, state: ast.expr) -> bool:
        """Whether the code counts, compares or reports the keys of a state dict by itself."""
        return self._differs or written(state) in self._told


def _is_dropped(module: Module, call: ast.Call, body: _Body) -> bool:
    """Whether nothing reads what a call returns."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Await):
        parent = module.parents.get(parent)
    if isinstance(parent, ast.Expr):
        # The last expression of a notebook's cell is shown; elsewhere it is dropped.
        return not module.path.endswith(".ipynb")
    if not isinstance(parent, ast.Assign) or parent.value is not call or len(parent.targets) != 1:
        return False
    target = parent.targets[0]
    names = [target] if isinstance(target, ast.Name) else []
    if isinstance(target, ast.Tuple):
        names = [each for each in target.elts if isinstance(each, ast.Name)]
        if len(names) != len(target.elts):
            return False
    if not names:
        return False
    if isinstance(body.node, ast.Module):
        # Names of a module may be read by others; underscores are not.
        return all(set(name.id) == {"_"} for name in names)
    return not any(name.id in body.reads for name in names)


@lru_cache(maxsize=1)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def _is_explained(module: Module, call: ast.Call) -> bool:
    """Whether a comment beside a load says why it is not strict: then somebody chose it."""
    first = max(call.lineno - 4, 0)
    lines = _lines(module.text)[first : call.end_lineno]
    return any("strict" in line.partition("#")[2] for line in lines)


def _is_handed_in(module: Module, call: ast.Call, state: ast.expr | None) -> bool:
    """Whether the state dict is an argument: the caller may know which keys it has."""
    function = body_around(module, call)
    return (
        isinstance(state, ast.Name)
        and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and state.id in {each.arg for each in parameters(function.args)}
    )


def _is_live(module: Module, state: ast.expr) -> bool:
    """Whether a state dict is no file's: another module's, or one parameter after the other."""
    return any(
        isinstance(each, ast.Dict)
        or (
            isinstance(each, ast.Call)
            and last_word(each.func) in ("state_dict", "named_parameters")
        )
        for each in possible(module, state)
    )


def _is_a_difference(node: ast.Name | ast.Attribute) -> bool:
    word = last_word(node).lower()
    return any(part in word for part in ("missing", "unexpected", "incompatible", "mismatch"))


def _hit(
    module: Module, call: ast.Call, model: str, state: ast.expr | None, *, chosen: bool
) -> Hit:
    name = last_word(call.func)
    source = (written(state) or module.source(state)) if state is not None else "the state dict"
    source = source if len(source) <= 60 else "the state dict"
    shown = f"`{source}`" if source != "the state dict" else source
    return Hit(
        rule=RULE_ID,
        node=call,
        message=(
            f"`{name}` of `{model}` with strict=False, and the result is dropped: keys that "
            f"{shown} lacks stay as `{model}` had them, and nothing tells"
        ),
        evidence={"call": name, "model": model, "state": source},
        remedy=(
            "Keep the result and test its `missing_keys` against those that are meant to be "
            "missing, and its `unexpected_keys` against none."
        ),
        severity=Severity.NOTE if chosen else None,
    )
