"""Loads of pickle and its kin."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Severity
from everybit.source.checks import loaders
from everybit.source.checks.load import Load
from everybit.source.checks.own_bytes import comes_from_itself
from everybit.source.checks.unpickler import Lets, judge_find_class
from everybit.source.hit import Fix, SetArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.calls import CallSite
    from everybit.source.module import ClassInfo, Module

RULE_ID: Final = "SRC302"
_TENSORS: Final = ("torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.Tensor")
_MARSHAL: Final = (
    "Keep plain values in JSON: marshal is not made for data from outside, and what it reads may "
    "be code."
)


def judge_pickle(site: CallSite) -> Load | None:
    """Return the unsafe load that a call of pickle's kin is, None where it is none."""
    if site.wrapper and site.name not in loaders.OBJECT_ARRAYS:
        return None  # the wrapper's own call says it
    if site.name in loaders.OBJECT_ARRAYS:
        return _object_arrays(site)
    hooked = _is_hooked(site)
    severity = Severity.WARNING if hooked else loaders.UNPICKLING.get(site.name)
    if severity is None or _is_new_shelf(site) or comes_from_itself(site.module, site.node):
        return None
    marshal = site.name.startswith("marshal.")
    if site.name == "shelve.open":
        does = "unpickles every value that is read from it, and a pickle can run any code"
    elif marshal:
        does = "reads bytes that can crash the process, and code objects"
    elif site.name == "msgpack_numpy.patch":
        does = "lets msgpack unpickle arrays of objects, and a pickle can run any code"
    elif hooked or site.name.startswith("msgpack_numpy."):
        does = "unpickles arrays of objects, and a pickle can run any code"
    else:
        does = "unpickles its input, and a pickle can run any code"
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{site.name} {does}",
        severity=severity,
        remedy=_MARSHAL if marshal else None,
    )


def _object_arrays(site: CallSite) -> Load | None:
    given = site.argument("allow_pickle", position=loaders.OBJECT_ARRAYS[site.name])
    if not given.may_be_truthy or comes_from_itself(site.module, site.node):
        return None
    if site.inner is not None and comes_from_itself(*site.inner):
        return None  # the wrapper reads what it has written itself
    surely = given.surely_truthy
    how = "is given allow_pickle=True" if surely else "can be given allow_pickle=True"
    return Load(
        rule=RULE_ID,
        node=site.node,
        inner=site.inner,
        loader=site.name,
        message=f"{site.name} {how}: an array of objects in the file can run any code",
        evidence={
            "argument": "allow_pickle",
            **({"through": site.wrapper} if site.wrapper else {}),
        },
        certainty=Certainty.PROOF if surely else None,
        fix=_without_objects(site),
        falls_through=given.may_be_falsy,
    )


def _is_hooked(site: CallSite) -> bool:
    """Return whether a reader of another format is given a function that unpickles."""
    if site.name not in loaders.HOOKED:
        return False
    hooks = [each.value for each in site.node.keywords if each.arg == "object_hook"]
    names = (name for hook in hooks for name in site.module.resolve_all(hook))
    return any(name in loaders.UNPICKLING_HOOKS for name in names)


def _is_new_shelf(site: CallSite) -> bool:
    return site.name == "shelve.open" and site.argument("flag", position=1).surely("n")


def _without_objects(site: CallSite) -> Fix | None:
    """Return the fix where the array becomes a tensor, which no object can."""
    parent = site.module.parents.get(site.node)
    if site.wrapper or not isinstance(parent, ast.Call) or site.node not in parent.args[:1]:
        return None
    if any(keyword.arg is None for keyword in site.node.keywords):
        return None
    if "allow_pickle" not in (keyword.arg for keyword in site.node.keywords):
        return None
    if not any(name in _TENSORS for name in site.module.resolve_all(parent.func)):
        return None
    edit = SetArgument(call=site.node, name="allow_pickle", value="False")
    return Fix(what="set allow_pickle=False: no tensor is made of objects", edits=(edit,))


def judge_unpicklers(module: Module) -> Iterator[Load]:
    """Yield the subclasses of Unpickler that let names through which are on no list."""
    for each in module.classes:
        base = next((name for name in loaders.UNPICKLERS if each.is_a(name)), None)
        if base is None:
            continue
        lets = _lets(each)
        if lets is None or lets is Lets.LISTED:
            continue
        what = (
            "forbids some names and lets every other one through"
            if lets is Lets.NOT_FORBIDDEN
            else "lets every name through"
        )
        yield Load(
            rule=RULE_ID,
            node=each.node,
            loader=base,
            message=f"{each.node.name}, a subclass of {base}, {what}: a pickle can run any code",
            evidence={"class": each.name, "names": str(lets)},
            severity=Severity.WARNING,
            remedy="Let find_class refuse every name that is not on a list.",
        )


def _lets(found: ClassInfo) -> Lets | None:
    """Return which names a class lets through; None where a class it inherits from decides."""
    function = found.methods.get("find_class")
    if isinstance(function, ast.FunctionDef):
        return judge_find_class(function)
    direct = found.bases[:1]
    return Lets.ALL if direct and direct[0] in loaders.UNPICKLERS else None
