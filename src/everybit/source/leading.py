"""Which functions of the project lead to a call that a check may judge, and how far it is."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.source.canonical import KNOWN_LIBRARIES, top_level
from everybit.source.entries import entries_of
from everybit.source.meaning import Defined, External
from everybit.source.scopes import defaults, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from everybit.source.meaning import FunctionNode, Given, Meaning, Meanings
    from everybit.source.module import Module
    from everybit.source.resolving import Frame

#: A function with its file.
Place = tuple["Module", "FunctionNode"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """Which calls inside a wrapper are worth following for the sake of the wrapper's callers.

    Attributes:
        call: Whether a call of a library's function of this dotted name may be judged.
        handed: Whether a call of it may be, where the function itself is an argument.
        keyword: Whether a call that is given this keyword, with this value, may be judged
            whatever it calls.
    """

    call: Callable[[str, ast.Call], bool]
    handed: Callable[[str], bool]
    keyword: Callable[[str | None, ast.expr], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Where a function leads.

    Attributes:
        surely: To a call that is wanted, whatever the function is given.
        through: To a call of what it is given.
    """

    surely: bool
    through: bool

    def __bool__(self) -> bool:
        return self.surely or self.through


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A call of a function of the project inside another one.

    Attributes:
        call: The call.
        target: The function.
        gives: Whether it is given something that is not written out there, and may be called.
        gives_wanted: Whether it is given a function that is wanted.
        given: The functions of the project that it is given.
    """

    call: ast.Call
    target: Place
    gives: bool
    gives_wanted: bool
    given: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Body:
    """The calls of one function.

    Attributes:
        lead: Where they lead without any further step.
        wanted: Those that are wanted themselves, and those of a parameter.
        steps: Those of functions of the project.
    """

    lead: Lead
    wanted: frozenset[ast.Call]
    steps: tuple[Step, ...]


_NOWHERE: Final = Lead(surely=False, through=False)


class Leads:
    """Remembers where the functions of a project lead.

    Each function is read once, and asked once for each number of steps that may be left: what a
    chain of wrappers costs does not grow with the number of its callers.

    Args:
        wanted: What is looked for.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._bodies: dict[FunctionNode, Body] = {}
        self._known: dict[tuple[FunctionNode, int], Lead] = {}

    def lead(self, place: Place, left: int) -> Lead:
        """Return where a function leads in so many further calls of the project's functions."""
        if left < 0:
            return _NOWHERE
        key = (place[1], left)
        if key not in self._known:
            self._known[key] = self._lead(self._body(place), left)
        return self._known[key]

    def calls(self, place: Place, left: int) -> Iterator[ast.Call]:
        """Yield the calls of a function that lead on, in the order of the text."""
        body = self._body(place)
        steps: dict[ast.Call, list[Step]] = {}
        for step in body.steps:
            steps.setdefault(step.call, []).append(step)
        for call in place[0].calls_within(place[1]):
            if call in body.wanted or any(
                self.lead(step.target, left - 1) for step in steps.get(call, ())
            ):
                yield call

    def follows(self, place: Place, given: Iterable[Given], frame: Frame | None, left: int) -> bool:
        """Return whether a call of a function is worth following.

        Args:
            place: The function.
            given: The call's arguments.
            frame: What the parameters around the call mean, where it lies in a wrapper itself.
            left: How many further calls are followed.
        """
        lead = self.lead(place, left)
        if lead.surely or not lead.through:
            return lead.surely
        module, function = place
        usual = defaults(function.args).values()
        return any(
            self.wanted.keyword(each.name, each.node)
            or any(self._is_wanted(meaning, left) for meaning in _meant(each, frame))
            for each in given
        ) or any(
            self._is_wanted(meaning, left)
            for value in usual
            for meaning in module.resolver.meanings(value)
        )

    def _is_wanted(self, meaning: Meaning, left: int) -> bool:
        match meaning:
            case External(name=name):
                return self._is_handed(name)
            case Defined():
                inner = callable_of(meaning)
                return inner is not None and bool(self.lead(inner[:2], left))
            case _:
                return False

    def _is_handed(self, name: str) -> bool:
        return top_level(name) in KNOWN_LIBRARIES and self.wanted.handed(name)

    def _lead(self, body: Body, left: int) -> Lead:
        surely, through = body.lead.surely, body.lead.through
        for step in body.steps if left > 0 else ():
            if surely and through:
                break
            lead = self.lead(step.target, left - 1)
            surely = surely or lead.surely
            if lead.through:
                through = through or step.gives
                surely = (
                    surely
                    or step.gives_wanted
                    or any(self.lead(each, left - 1) for each in step.given)
                )
        return Lead(surely=surely, through=through)

    def _body(self, place: Place) -> Body:
        if place[1] not in self._bodies:
            self._bodies[place[1]] = self._read(*place)
        return self._bodies[place[1]]

    def _read(self, module: Module, function: FunctionNode) -> Body:
        names = {arg.arg for arg in parameters(function.args)}
        wanted: set[ast.Call] = set()
        steps: list[Step] = []
        surely = through = False
        for call in module.calls_within(function):
            meanings = module.resolver.meanings(call.func)
            if isinstance(call.func, ast.Name) and call.func.id in names:
                through = True
                wanted.add(call)
            if any(self.wanted.keyword(k.arg, k.value) for k in call.keywords) or any(
                isinstance(meaning, External)
                and top_level(meaning.name) in KNOWN_LIBRARIES
                and self.wanted.call(meaning.name, call)
                for meaning in meanings
            ):
                surely = True
                wanted.add(call)
            steps += self._steps(module, call, meanings)
        return Body(
            lead=Lead(surely=surely, through=through), wanted=frozenset(wanted), steps=tuple(steps)
        )

    def _steps(self, module: Module, call: ast.Call, meanings: Meanings) -> Iterator[Step]:
        defined = [meaning for meaning in meanings if isinstance(meaning, Defined)]
        targets = [inner[:2] for inner in map(callable_of, defined) if inner is not None]
        if not targets:
            return
        arguments = [
            *(each for meaning in defined for each in meaning.bound),
            *module.resolver.given(call),
        ]
        meant = [meaning for each in arguments for meaning in _meant(each, None)]
        inner = [callable_of(meaning) for meaning in meant if isinstance(meaning, Defined)]
        for target in targets:
            yield Step(
                call=call,
                target=target,
                gives=any(not isinstance(each.node, ast.Constant) for each in arguments),
                gives_wanted=any(
                    isinstance(meaning, External) and self._is_handed(meaning.name)
                    for meaning in meant
                ),
                given=tuple(each[:2] for each in inner if each is not None),
            )


def _meant(given: Given, frame: Frame | None) -> Meanings:
    """Return what an argument may mean; of `**` what is under its keys."""
    if given.starred == "**":
        entries = entries_of(given.module, given.node, given.node, frame)
        return tuple(m for value in entries.items.values() for m in value.meanings)
    return given.module.resolver.meanings(given.node, frame)


def callable_of(function: Defined) -> tuple[Module, FunctionNode, bool] | None:
    """Return the function that a call runs, and whether its first parameter is filled."""
    node, module = function.node, function.module
    if not isinstance(node, ast.ClassDef):
        return module, node, function.method
    name = "__call__" if function.instance else "__init__"
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name:
            return module, each, True
    return None
