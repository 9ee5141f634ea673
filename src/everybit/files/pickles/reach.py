"""Every name that unpickling would reach: imported, by attribute, called on results, or changed."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.attributes import SETTERS, find_memory
from everybit.files.pickles.constants import UNKNOWN, as_string, show, show_arguments
from everybit.files.pickles.file_code import FUNCTION_BUILDERS, FileCode, is_plain
from everybit.files.pickles.handed import find_handed
from everybit.files.pickles.naming import READERS, Named, Names, name_written
from everybit.files.pickles.nodes import Call, Change, Extension, Global, TupleNode

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node, Pickle

#: Of each name so many calls are shown.
MAX_SHOWN: Final = 8
_REGISTER: Final = "copyreg.add_extension"
#: A longer name may be cut where a call is named after it.
_MAX_PLAIN: Final = 400


class Via(StrEnum):
    """How a name is reached."""

    IMPORT = "import"
    ATTRIBUTE = "attribute"
    RESULT = "result"
    CHANGE = "change"


class Reached:
    """A name that unpickling would reach, told once for one pickle; added up while it is walked.

    Args:
        named: What it stands for.
        via: How it is reached first.

    Attributes:
        module: Its module, as Python 3 imports it; "?" where it is computed.
        name: Dotted path in it: "" for the module itself, `()` where a call's result stands, "?"
            where it is computed.
        via: Named directly, through attributes and items, as what a call returned, or as the
            target of a change (BUILD, APPEND, SETITEM on what the pickle did not make).
        positions: Offsets of the first opcodes that reach it.
        shown: The first calls, or what the first changes set.
        num_calls: How often it would be called.
        raw: As the pickle writes it, where Python 3 maps it to another name.
        sure: What it gives is known wherever it is called; False for a `getattr` whose name is
            computed while loading.
        qualified: `module.name`.
    """

    __slots__ = (
        "module", "name", "num_calls", "positions", "qualified", "raw", "shown", "sure", "via",
    )  # fmt: skip

    def __init__(self, named: Named, via: Via) -> None:
        self.module = named.module
        self.name = named.path
        self.qualified = named.qualified
        self.sure = named.sure
        self.via = via
        self.positions: list[int] = []
        self.shown: list[Call | tuple[str, ...]] = []
        self.num_calls = 0
        self.raw = ""

    @property
    def called(self) -> bool:
        """Whether it would be called."""
        return self.num_calls > 0

    @property
    def position(self) -> int:
        """Offset of the first opcode that reaches it."""
        return self.positions[0]

    @property
    def calls(self) -> list[list[str]]:
        """Arguments of the first calls: constants in short, "?" otherwise; of a change its kind."""
        return [
            show_arguments(item) if isinstance(item, Call) else list(item) for item in self.shown
        ]

    @property
    def arguments(self) -> list[str]:
        """Arguments of the first call, or what the first change sets."""
        item = self.shown[0] if self.shown else ()
        return show_arguments(item) if isinstance(item, Call) else list(item)


def find_reached(pickle: Pickle) -> list[Reached]:
    """Return every name that unpickling would reach, each once, in the order first reached.

    Takes time linear in the pickle. What a broken pickle reaches before its fault counts.
    """
    plain = _find_plainly(pickle)
    if plain is not None:
        return plain
    finder = _Finder(pickle)
    finder.walk()
    return list(finder.found.values())


_IMPORT: Final = Via.IMPORT
_ATTRIBUTE: Final = Via.ATTRIBUTE
_RESULT: Final = Via.RESULT
_CHANGE: Final = Via.CHANGE


def _follow_name(module: str, name: str, legacy: bool) -> tuple[Named, bool, bool, bool]:
    """Return what is known of a global by its name alone, whatever is done with it.

    Returns:
        What it stands for; whether all its calls mean the same, a new result; whether it reads
        attributes by name, or imports; and whether it makes functions of code in the file.
    """
    named = name_written(module, name, legacy)
    path, whole = named.path, named.qualified
    odd = not 0 < len(path) <= _MAX_PLAIN or "()" in path or whole.startswith("copyreg.")
    plain = not odd and is_plain(whole)
    return named, plain, whole in READERS, f"{module}.{name}" in FUNCTION_BUILDERS


_follow_short: Final = lru_cache(maxsize=4096)(_follow_name)


def _find_plainly(pickle: Pickle) -> list[Reached] | None:
    """Return what `_Finder` finds where all that a pickle does is to call plain names.

    Most pickles that do harm are as short as that. None of any other.
    """
    if pickle.builds or pickle.touches or pickle.persistents or pickle.extensions:
        return None
    found: dict[tuple[str, str], Reached] = {}
    plain: dict[int, Reached] = {}
    for node in pickle.globals:
        module, name = node.module, node.name
        if len(module) + len(name) > _MAX_PLAIN:
            return None
        named, is_plainly_called, reads, builds = _follow_short(module, name, node.legacy)
        if not is_plainly_called or reads or builds:
            return None
        key = (named.module, named.path)
        if key in found or name.endswith(SETTERS):
            return None
        found[key] = plain[id(node)] = reached = Reached(named, _IMPORT)
        reached.positions.append(node.position)
        if named.module != module or named.path != name:
            reached.raw = node.qualified
    for call in pickle.calls:
        called = plain.get(id(call.function))
        if called is None or call.kwargs is not None:
            return None
        called.num_calls += 1
        if called.num_calls < MAX_SHOWN:  # the import stands among the positions
            called.positions.append(call.position)
        if called.num_calls <= MAX_SHOWN:
            called.shown.append(call)
    return list(found.values())


class _Finder:
    __slots__ = ("_code", "_names", "builds", "found", "getters", "made", "passed", "pickle",
                 "plain", "readers")  # fmt: skip

    def __init__(self, pickle: Pickle) -> None:
        self.pickle = pickle
        #: By the `id` of a call: what it gives.
        self.made: dict[int, Named] = {}
        self.found: dict[tuple[str, str, bool], Reached] = {}
        #: By the `id` of a global whose calls all mean the same: what they give, and their sum.
        self.plain: dict[int, tuple[Named, Reached]] = {}
        self.readers: list[tuple[Global, Named]] = []
        self.passed: list[Call] = []
        self.getters: list[Call] = []
        self.builds = False
        self._names: Names | None = None
        self._code: FileCode | None = None

    # A pickle whose calls are all plain, as most are, needs neither of these.

    @property
    def names(self) -> Names:
        if self._names is None:
            self._names = Names(calls=self.made)
        return self._names

    @property
    def code(self) -> FileCode:
        if self._code is None:
            self._code = FileCode(self.names)
        return self._code

    def walk(self) -> None:
        pickle = self.pickle
        for node in pickle.globals:
            self.import_(node)
        plain, made = self.plain, self.made
        for call in pickle.calls:
            known = plain.get(id(call.function))
            if known is None:
                self.call(call)
                continue
            # Of ten thousand calls of one function only its name was looked at closely.
            made[id(call)], summed = known
            self.count(summed, call.position, call)
        if self.passed:
            built = {id(target): state for target, state in pickle.builds if state is not None}
            for call in self.passed:
                self.change_passed(call, built.get(id(call)))
        for extension in pickle.extensions:
            self.sum(self.names.of(extension), _IMPORT, extension.position)
        for touch in pickle.touches:
            items = tuple(show(item) for item in touch.items[:MAX_SHOWN])
            self.change(self.names.of(touch.target), touch.kind, items, touch.position)
        if self.builds:
            self.code.find_kept(pickle)
        if self._code is not None and (self._code.applied or self._code.classes):
            for named, position in self._code.runs():
                self.note(named, _RESULT, position, ())
        for attribute, position in find_memory(pickle):
            self.sum(Named("object", attribute), _ATTRIBUTE, position)
        if pickle.persistents:
            self.sources()
        if self.readers or self.getters:
            self.hand_on()

    def import_(self, node: Global) -> None:
        module, name = node.module, node.name
        follow = _follow_short if len(module) + len(name) <= _MAX_PLAIN else _follow_name
        named, plain, reads, builds = follow(module, name, node.legacy)
        summed = self.sum(named, _IMPORT, node.position)
        if named.module != module or named.path != name:
            summed.raw = node.qualified
        if plain:
            self.plain[id(node)] = (named.result(), summed)
        if reads:
            self.readers.append((node, named))
        if builds:
            self.builds = True

    def call(self, call: Call) -> None:
        """Take in a call of what is no plain name, or of what may pass names on."""
        function, made = self.names.add(call)
        self.code.add(call, function)
        self.builds = self.builds or call.name in FUNCTION_BUILDERS  # one that was recalled
        via = _IMPORT if isinstance(call.function, (Global, Extension)) else _ATTRIBUTE
        if function.keys:
            self.note_parts(function, call)
        else:
            via = _RESULT if "()" in function.path else via
            self.note(function, via, call.position, call)
        if made.qualified != f"{function.qualified}()" and not made.made:
            self.passed_on(function, made, call)
        if function.made and isinstance(call.function, Call):
            self.call_rebuilt(call.function, call)
        if function.qualified == _REGISTER:
            self.register(call)
        elif isinstance(call.function, Global) and is_plain(function.qualified):
            self.plain[id(call.function)] = (made, self.sum(function, _IMPORT, call.position))
        if not made.is_result:
            self.passed.append(call)
        if made.keys:
            self.getters.append(call)

    def sources(self) -> None:
        """Note a class whose source torch would compare, and write to a file, and that is made up.

        Before 1.6 torch wrote `("module", class, file, source)` in the place of a class.
        """
        for outside in self.pickle.persistents:
            parts = outside.id.items if isinstance(outside.id, TupleNode) else []
            label = as_string(parts[0]) if parts else ""
            held = parts[1:2] if label == "module" else parts[:1] if label is None else []
            if held and isinstance(held[0], Call) and self.names.of(held[0]).is_result:
                made_up = Named("torch.serialization", "dump_patches")
                self.sum(made_up, _ATTRIBUTE, held[0].position)

    def hand_on(self) -> None:
        """Note what reads attributes by name, or imports, and is called where nobody can follow."""
        handed = find_handed(self.pickle)
        for node, told in self.readers:
            if id(node) in handed:
                self.sum(told, _IMPORT, node.position).sure = False
        for call in self.getters:
            getter = self.names.of(call)
            for key in getter.keys if id(call) in handed else ():
                part = Named(getter.module, f"{getter.path}.{key}", getter.keys, getter.sure)
                self.sum(part, _ATTRIBUTE, call.position)

    def note_parts(self, getter: Named, call: Call) -> None:
        """Note every attribute or item that an `attrgetter` or its like gives."""
        for key in getter.keys:
            for owner in call.arguments[:1]:
                named = self.names.attribute_of(owner, key)
                self.sum(named, _RESULT if "()" in named.path else _ATTRIBUTE, call.position)

    def call_rebuilt(self, partial: Call, call: Call) -> None:
        """Note the function that BUILD gave to a `partial`, as unpickling one does."""
        state = partial.state
        if isinstance(state, TupleNode) and state.items:
            named = self.names.of(state.items[0])
            self.note(named, _RESULT if "()" in named.path else _IMPORT, call.position, call)

    def passed_on(self, function: Named, made: Named, call: Call) -> None:
        """Note what a call gives that passes names on; a result is what has been called."""
        if made.is_result:
            inner = Named(made.module, made.path.removesuffix("()"), sure=made.sure)
            self.note(inner, _RESULT if "()" in inner.path else _ATTRIBUTE, call.position, ())
            return
        via = _RESULT if "()" in made.path else _ATTRIBUTE
        summed = self.sum(made, via, call.position)
        if not made.sure:
            summed.sure = False
            if function.qualified in READERS:
                self.sum(function, _IMPORT, call.position).sure = False

    def register(self, call: Call) -> None:
        """Remember an extension code that the pickle itself gives a name to."""
        args = call.arguments
        if len(args) == 3 and isinstance(args[2], int):
            module, name = as_string(args[0]), as_string(args[1])
            self.names.extensions[args[2]] = (module or UNKNOWN, name or UNKNOWN)
            self.sum(Named(module or UNKNOWN, name or UNKNOWN), _ATTRIBUTE, call.position)

    def change_passed(self, call: Call, state: Node) -> None:
        """Note a change of what a call passed on: it is no new object."""
        named = self.names.of(call)
        if state is not None:
            self.change(named, Change.BUILD, (show(state),), call.position)
        if call.items:
            shown = tuple(show(item) for item in call.items[:MAX_SHOWN])
            self.change(named, Change.APPEND, shown, call.position)
        if call.pairs:
            shown = tuple(f"{show(key)}: {show(value)}" for key, value in call.pairs[:MAX_SHOWN])
            self.change(named, Change.SET_ITEM, shown, call.position)

    def change(self, named: Named, kind: Change, items: tuple[str, ...], position: int) -> None:
        summed = self.sum(named, _CHANGE, position)
        if len(summed.shown) < MAX_SHOWN:
            summed.shown.append((str(kind), *items))

    def note(self, named: Named, via: Via, position: int, call: Call | tuple[str, ...]) -> None:
        self.count(self.sum(named, via, position), position, call)

    def count(self, summed: Reached, position: int, call: Call | tuple[str, ...]) -> None:
        positions, shown = summed.positions, summed.shown
        if len(positions) < MAX_SHOWN and position not in positions:
            positions.append(position)
        summed.num_calls += 1
        if len(shown) < MAX_SHOWN:
            shown.append(call)

    def sum(self, named: Named, via: Via, position: int) -> Reached:
        key = (named.module, named.path, via is _CHANGE)
        summed = self.found.get(key)
        if summed is None:
            summed = self.found[key] = Reached(named, via)
            summed.positions.append(position)
        elif len(summed.positions) < MAX_SHOWN and position not in summed.positions:
            summed.positions.append(position)
        return summed
