"""Every name that unpickling would reach: imported, by attribute, called on results, or changed."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.attributes import find_memory
from everybit.files.pickles.constants import UNKNOWN, as_string, show, show_arguments
from everybit.files.pickles.file_code import FUNCTION_BUILDERS, FileCode, is_plain
from everybit.files.pickles.handed import find_handed
from everybit.files.pickles.naming import READERS, Named, Names
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
    """A name that unpickling would reach, told once for one pickle.

    Attributes:
        module: Its module, as Python 3 imports it; "?" where it is computed.
        name: Dotted path in it: "" for the module itself, `()` where a call's result stands, "?"
            where it is computed.
        via: Named directly, through attributes and items, as what a call returned, or as the
            target of a change (BUILD, APPEND, SETITEM on what the pickle did not make).
        called: It would be called.
        position: Offset of the first opcode that reaches it.
        positions: Offsets of the first of them.
        shown: The first calls, or what the first changes set.
        num_calls: How often it would be called.
        raw: As the pickle writes it, where Python 3 maps it to another name.
        sure: What it gives is known wherever it is called; False for a `getattr` whose name is
            computed while loading.
        qualified: `module.name`.
    """

    __slots__ = (
        "_calls", "called", "module", "name", "num_calls", "position", "positions", "qualified",
        "raw", "shown", "sure", "via",
    )  # fmt: skip

    def __init__(
        self,
        *,
        module: str,
        name: str,
        via: Via,
        called: bool,
        position: int,
        positions: tuple[int, ...] = (),
        shown: tuple[Call | tuple[str, ...], ...] = (),
        num_calls: int = 0,
        raw: str = "",
        sure: bool = True,
    ) -> None:
        self.module = module
        self.name = name
        self.via = via
        self.called = called
        self.position = position
        self.positions = positions
        self.shown = shown
        self.num_calls = num_calls
        self.raw = raw
        self.sure = sure
        self.qualified = f"{module}.{name}" if name else module
        self._calls: tuple[tuple[str, ...], ...] | None = None

    @property
    def calls(self) -> tuple[tuple[str, ...], ...]:
        """Arguments of the first calls: constants in short, "?" otherwise; of a change its kind."""
        if self._calls is None:
            self._calls = tuple(
                show_arguments(item) if isinstance(item, Call) else item for item in self.shown
            )
        return self._calls

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the first call, or what the first change sets."""
        return self.calls[0] if self.shown else ()


class _Sum:
    """A name while its calls are added up."""

    __slots__ = ("calls", "named", "num_calls", "positions", "raw", "sure", "via")

    def __init__(self, named: Named, via: Via) -> None:
        self.named = named
        self.via = via
        self.positions: list[int] = []
        self.calls: list[Call | tuple[str, ...]] = []
        self.num_calls = 0
        self.sure = True
        self.raw = ""


def find_reached(pickle: Pickle) -> tuple[Reached, ...]:
    """Return every name that unpickling would reach, each once, in the order first reached.

    Takes time linear in the pickle. What a broken pickle reaches before its fault counts.
    """
    finder = _Finder(pickle)
    finder.walk()
    return tuple(_tell(found) for found in finder.found.values())


def _tell(found: _Sum) -> Reached:
    return Reached(
        module=found.named.module,
        name=found.named.path,
        via=found.via,
        called=found.num_calls > 0,
        position=found.positions[0],
        positions=tuple(found.positions),
        shown=tuple(found.calls),
        num_calls=found.num_calls,
        raw=found.raw,
        sure=found.sure and found.named.sure,
    )


_IMPORT: Final = Via.IMPORT
_ATTRIBUTE: Final = Via.ATTRIBUTE
_RESULT: Final = Via.RESULT
_CHANGE: Final = Via.CHANGE


class _Finder:
    def __init__(self, pickle: Pickle) -> None:
        self.pickle = pickle
        self.names = Names()
        self.code = FileCode(self.names)
        self.found: dict[tuple[str, str, bool], _Sum] = {}
        self.plain: dict[int, tuple[Named, _Sum]] = {}
        self.passed: list[Call] = []
        self.getters: list[Call] = []

    def walk(self) -> None:
        for node in self.pickle.globals:
            self.import_(node)
        for call in self.pickle.calls:
            self.call(call)
        built = {id(target): state for target, state in self.pickle.builds if state is not None}
        for call in self.passed:
            self.change_passed(call, built.get(id(call)))
        for extension in self.pickle.extensions:
            self.sum(self.names.of(extension), _IMPORT, extension.position)
        for touch in self.pickle.touches:
            items = tuple(show(item) for item in touch.items[:MAX_SHOWN])
            self.change(self.names.of(touch.target), touch.kind, items, touch.position)
        if any(call.name in FUNCTION_BUILDERS for call in self.pickle.calls):
            self.code.find_kept(self.pickle)
        for named, position in self.code.runs():
            self.note(named, _RESULT, position, ())
        for attribute, position in find_memory(self.pickle):
            self.sum(Named("object", attribute), _ATTRIBUTE, position)
        self.sources()
        self.hand_on()

    def import_(self, node: Global) -> None:
        named = self.names.of(node)
        summed = self.sum(named, _IMPORT, node.position)
        if (named.module, named.path) != (node.module, node.name):
            summed.raw = node.qualified

    def call(self, call: Call) -> None:
        plain = self.plain.get(id(call.function))
        if plain is not None:
            made, summed = plain
            self.names.calls[id(call)] = made
            self.count(summed, call.position, call)
            return
        if type(call.function) is Global and self.call_plainly(call.function, call):
            return
        function, made = self.names.add(call)
        self.code.add(call, function)
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
        elif is_plain(call.function, function):
            self.plain[id(call.function)] = (made, self.sum(function, _IMPORT, call.position))
        if not made.is_result:
            self.passed.append(call)
        if made.keys:
            self.getters.append(call)

    def call_plainly(self, node: Global, call: Call) -> bool:
        """Take in the first call of a name whose calls all mean the same: a new result."""
        function = self.names.of(node)
        odd = not 0 < len(function.path) <= _MAX_PLAIN or "()" in function.path
        if odd or function.qualified.startswith("copyreg.") or not is_plain(node, function):
            return False
        made = function.result()
        self.names.calls[id(call)] = made
        summed = self.sum(function, _IMPORT, call.position)
        self.count(summed, call.position, call)
        # Of ten thousand calls of one function only the first is looked at closely.
        self.plain[id(node)] = (made, summed)
        return True

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
        named = [(node, self.names.of(node)) for node in self.pickle.globals]
        readers = [(node, told) for node, told in named if told.qualified in READERS]
        if not readers and not self.getters:
            return
        handed = find_handed(self.pickle)
        for node, told in readers:
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
        if len(summed.calls) < MAX_SHOWN:
            summed.calls.append((str(kind), *items))

    def note(self, named: Named, via: Via, position: int, call: Call | tuple[str, ...]) -> None:
        self.count(self.sum(named, via, position), position, call)

    def count(self, summed: _Sum, position: int, call: Call | tuple[str, ...]) -> None:
        if len(summed.positions) < MAX_SHOWN and position not in summed.positions:
            summed.positions.append(position)
        summed.num_calls += 1
        if len(summed.calls) < MAX_SHOWN:
            summed.calls.append(call)

    def sum(self, named: Named, via: Via, position: int) -> _Sum:
        key = (named.module, named.path, via is _CHANGE)
        summed = self.found.get(key)
        if summed is None:
            summed = self.found[key] = _Sum(named, via)
        if len(summed.positions) < MAX_SHOWN and position not in summed.positions:
            summed.positions.append(position)
        return summed
