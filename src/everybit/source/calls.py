"""Calls as a check sees them: what is called, and with which constants."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.source.canonical import KNOWN_LIBRARIES, top_level
from everybit.source.entries import Value, entries_of
from everybit.source.meaning import (
    UNKNOWN,
    UNKNOWNS,
    Constant,
    Defined,
    External,
    Given,
    Literal,
    Meanings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from everybit.source.leading import Wanted
    from everybit.source.module import Module
    from everybit.source.resolving import Frame

#: Functions and methods that call the function they are given, with where they take it.
_CALLS_ITS_ARGUMENT: Final = {
    "map": 0, "imap": 0, "imap_unordered": 0, "map_async": 0, "starmap": 0, "starmap_async": 0,
    "submit": 0, "apply": 0, "apply_async": 0, "to_thread": 0, "run_in_executor": 1, "filter": 0,
    "tree_map": 0, "delayed": 0, "reduce": 0, "run_sync": 0,
}  # fmt: skip
#: Those that hand the rest of their own arguments on.
_HANDS_ON: Final = frozenset({"submit", "to_thread", "run_in_executor"})
#: Those that call it with one item of each of their other arguments.
_ONE_OF_EACH: Final = frozenset({"map", "imap", "imap_unordered", "filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What a call passes under one name.

    Attributes:
        values: The constants that it may be: several where a flag is conditional.
        unknown: Whether it may be something that is not known.
        absent: Whether it may not be given at all.
        node: The expression, in the file of the call; None where it is somewhere else.
    """

    values: tuple[Constant, ...] = ()
    unknown: bool = False
    absent: bool = False
    node: ast.expr | None = None

    @classmethod
    def of(
        cls, meanings: Meanings, *, absent: bool = False, node: ast.expr | None = None
    ) -> Argument:
        """Return what meanings say of an argument."""
        values = tuple(m.value for m in meanings if isinstance(m, Literal))
        unknown = any(not isinstance(m, Literal) for m in meanings) or (not meanings and not absent)
        return cls(values=values, unknown=unknown, absent=absent, node=node)

    @property
    def is_absent(self) -> bool:
        """Whether it is surely not given."""
        return self.absent and not self.unknown and not self.values

    @property
    def is_given(self) -> bool:
        """Whether it is surely given, whatever it is."""
        return not self.absent

    @property
    def is_unknown(self) -> bool:
        """Whether nothing at all is known of it."""
        return self.unknown and not self.values and not self.absent

    @property
    def may_be_falsy(self) -> bool:
        """Whether one of the constants is false, `None` or 0."""
        return any(not value for value in self.values)

    @property
    def may_be_truthy(self) -> bool:
        """Whether one of the constants is true."""
        return any(self.values)

    @property
    def surely_falsy(self) -> bool:
        """Whether it can only be false, `None` or 0."""
        return bool(self.values) and not (self.unknown or self.absent or self.may_be_truthy)

    @property
    def surely_truthy(self) -> bool:
        """Whether it can only be a constant that is true."""
        return bool(self.values) and not (self.unknown or self.absent or self.may_be_falsy)

    def may_be(self, value: Constant) -> bool:
        """Return whether it may be this constant, of this type."""
        return any(type(each) is type(value) and each == value for each in self.values)

    def surely(self, value: Constant) -> bool:
        """Return whether it can only be this constant, of this type."""
        return self.may_be(value) and len(self.values) == 1 and not (self.unknown or self.absent)


ABSENT: Final = Argument(absent=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallSite:
    """One call, with one name that it may mean.

    Attributes:
        module: The file it stands in.
        node: The call, for the place of a hit.
        name: What is called, as `Module.resolve` names it.
        sure: Whether it can mean nothing else.
        given: The arguments, those bound before by `functools.partial` first.
        indirect: Whether the function is only handed to what calls it (`map(torch.load, files)`).
        loose: Whether positional arguments are given that cannot be told.
        wrapper: The function of the project that hands the arguments on; empty where none does.
        inner: Of a wrapped call: the call inside the wrapper, and its file.
        frame: Of a wrapped call: what the wrapper's parameters mean.
    """

    module: Module
    node: ast.Call
    name: str
    sure: bool = True
    given: tuple[Given, ...] = ()
    indirect: bool = False
    loose: bool = False
    wrapper: str = ""
    inner: tuple[Module, ast.Call] | None = None
    frame: Frame | None = field(default=None, repr=False)

    def argument(self, name: str | None, position: int | None = None) -> Argument:
        """Return what the call passes under a keyword, or at a place.

        Args:
            name: The keyword; None for an argument that is positional only.
            position: Its place among the positional arguments, from 0; None where it is
                keyword only.
        """
        value = self.value(name, position)
        here = value.node if value.node is not None and self._is_here(value.node) else None
        return Argument.of(value.meanings, absent=value.absent, node=here)

    def value(self, name: str | None, position: int | None = None) -> Value:
        """Return what is passed, as meanings."""
        place = 0
        loose = self.loose
        at_place: Value | None = None
        by_name: Value | None = None
        by_dict: Value | None = None
        for given in self.given:
            if given.starred == "**":
                if name is not None:
                    entries = entries_of(given.module, given.node, given.node, self.frame)
                    found = entries.get(name)
                    by_dict = found if by_dict is None else _over(by_dict, found)
            elif given.starred == "*":
                loose = True
            elif given.name is None:
                if place == position and not loose:
                    at_place = self._meant(given)
                place += 1
            elif given.name == name:
                by_name = self._meant(given)
        if by_name is not None:
            return by_name
        if at_place is not None:
            return at_place
        if by_dict is not None and not by_dict.absent:
            return by_dict
        if loose and position is not None:
            return Value(UNKNOWNS, absent=True)
        return by_dict if by_dict is not None else Value(absent=True)

    def keywords(self) -> tuple[str, ...]:
        """Return the names of the keywords that are written at the call itself."""
        return tuple(given.name for given in self.given if given.name is not None)

    def positional(self) -> tuple[ast.expr, ...]:
        """Return the expressions at the positional places, up to the first `*`."""
        found = []
        for given in self.given:
            if given.starred == "*":
                break
            if given.name is None and not given.starred:
                found.append(given.node)
        return tuple(found)

    def _meant(self, given: Given) -> Value:
        return Value(given.module.resolver.meanings(given.node, self.frame), node=given.node)

    def _is_here(self, node: ast.expr) -> bool:
        return node in self.module.parents


def _over(before: Value, after: Value) -> Value:
    return after if not after.absent else Value(after.meanings, node=after.node) | before


def read_calls(
    module: Module, nodes: Iterable[ast.Call], through: Wanted | None
) -> Iterator[CallSite]:
    """Yield calls of a file, in the order given.

    Args:
        module: The file.
        nodes: The calls.
        through: Which calls to look for in the functions of the project that are called; None
            to follow none.
    """
    from everybit.source.wrapping import wrapped_calls

    for node in nodes:
        meanings = module.resolver.meanings(node.func)
        named = [m for m in meanings if isinstance(m, External | Defined)]
        sure = len(named) == 1 and UNKNOWN not in meanings
        for meaning in named:
            given = (*meaning.bound, *module.resolver.given(node))
            yield CallSite(module=module, node=node, name=meaning.name, sure=sure, given=given)
            if through is not None and isinstance(meaning, Defined):
                yield from wrapped_calls(module, node, meaning, given, through, sure=sure)
        yield from _handed_over(module, node)


def _handed_over(module: Module, node: ast.Call) -> Iterator[CallSite]:
    """Yield the calls that something else makes of a function it is given."""
    word = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    word = node.func.id if isinstance(node.func, ast.Name) else word
    place = _CALLS_ITS_ARGUMENT.get(word)
    target: ast.expr | None = None
    rest: Sequence[Given] = ()
    if place is not None and len(node.args) > place:
        target = node.args[place]
        if word in _HANDS_ON:
            rest = module.resolver.given(node)[place + 1 :]
    elif word in ("Thread", "Process", "Timer"):
        target = next((k.value for k in node.keywords if k.arg in ("target", "function")), None)
    if target is None or isinstance(target, ast.Starred):
        return
    if not rest and word in ("apply_async", "apply", "Thread", "Process"):
        words = ("kwds", "kwargs")
        rest = [Given(module, k.value, starred="**") for k in node.keywords if k.arg in words]
    each = word in _ONE_OF_EACH
    if each:
        rest = [g for g in module.resolver.given(node)[1:] if g.name is None]
    meanings = module.resolver.meanings(target)
    named = [m for m in meanings if isinstance(m, External)]
    for meaning in named:
        if top_level(meaning.name) in KNOWN_LIBRARIES:
            yield CallSite(
                module=module,
                node=node,
                name=meaning.name,
                sure=len(meanings) == 1,
                given=(*meaning.bound, *rest),
                indirect=True,
                loose=word not in _HANDS_ON and not each,
            )
