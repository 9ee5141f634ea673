"""`restore`: the object tree that `convert` wrote, with its tensors; no code of it is run.

Containers that can be filled later (lists, dictionaries, sets, records) are made empty first and
filled one after the other, so that nesting and cycles cost no stack. What must be complete when it
is made (tuples, frozen sets, the arguments of known types) is completed on the spot.
"""

from __future__ import annotations

import collections
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.filling import Filling
from everybit.checkpoint.record import Record
from everybit.checkpoint.restored_numpy import OddError
from everybit.checkpoint.restored_objects import MAKERS, WITH_ATTRIBUTES, make, named_value
from everybit.checkpoint.restored_tensors import Tensors
from everybit.checkpoint.restored_torch import quantized_like
from everybit.checkpoint.restored_values import bytes_of, complex_of, float_of, integer_of
from everybit.files.collection import paused_collection
from everybit.files.converting.reading import find_sidecars, read_sidecar

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from everybit.files.converting.reading import Sidecar

_UNMADE: Final = object()
#: What a maker raises for what it does not expect.
_REFUSALS: Final = (
    OddError, RuntimeError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError,
)  # fmt: skip


def restore(path: str | os.PathLike[str]) -> Any:
    """Return the object that `everybit convert` wrote: tensors bit-identical, on the CPU.

    Tensors that shared a storage share one again, at the same offsets and strides; the same object
    in two places is one object. Plain values of Python, NumPy and torch are what they were; any
    other object is a `Record`. Every byte is held against the digest that the conversion recorded.

    Args:
        path: The safetensors file, its `.state.json`, or the folder of them; a folder of several
            gives a dictionary by name.

    Raises:
        PathError: It cannot be read, or was not written by `everybit convert`.
        DamagedError: A file is missing, or not what was written; names the rule.
    """
    places = find_sidecars(Path(path))
    is_one = len(places) == 1
    found = {name: _restore_one(place) for name, place in places.items()}
    return next(iter(found.values())) if is_one else found


def _restore_one(path: Path) -> Any:
    sidecar = read_sidecar(path)
    with paused_collection():
        try:
            return _Builder(sidecar).run()
        except OddError as odd:
            raise sidecar.wrong(str(odd)) from None
        except (RecursionError, OverflowError, MemoryError) as error:
            what = f"asks for what cannot be made ({type(error).__name__})"
            raise sidecar.wrong(what) from None


class _Builder:
    """Turns the JSON of a sidecar into objects."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        self.tensors = Tensors(sidecar)
        self.arrays: dict[str, Any] = {}
        self.shared: list[Any] = [_UNMADE] * len(sidecar.shared)
        self.making: set[int] = set()
        self.filling = Filling()
        self.last: list[Callable[[], None]] = []

    def run(self) -> Any:
        """Return the tree."""
        root = self.build(self.sidecar.tree)
        self.filling.drain()
        for finish in self.last:
            finish()
        return root

    def later(self, made: Any, fill: Callable[[], None]) -> None:
        """Have an empty container filled when its turn comes."""
        self.filling.later(made, fill)

    def complete(self, node: Any) -> Any:
        """Return a node with all that plain containers in it hold, now and not later."""
        return self.filling.complete(self.build(node))

    def build(self, node: Any) -> Any:
        """Return a node's object; containers may still be empty."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            made: list[Any] = []
            self.later(made, lambda: made.extend(self.build(item) for item in node))
            return made
        mark = next(iter(node), "")
        if mark[:1] != "$":
            return self.table({}, node)
        how = _MARKS.get(mark)
        if how is None:
            raise self.sidecar.wrong(f"holds {mark[:40]!r}, which is not known")
        return how(self, node[mark], node)

    # -- single values ---------------------------------------------------------------------------

    def reference(self, number: Any, _node: Any) -> Any:
        """Return an object of the table of those that are used more than once."""
        if type(number) is not int or not 0 <= number < len(self.shared):
            raise self.sidecar.wrong(f"refers to object {str(number)[:20]}, which is not there")
        if self.shared[number] is _UNMADE:
            if number in self.making:
                raise self.sidecar.wrong(f"object {number} holds itself where that cannot be")
            self.making.add(number)
            self.shared[number] = self.build(self.sidecar.shared[number])
            self.making.discard(number)
        return self.shared[number]

    def integer(self, text: Any, _node: Any) -> int:
        """Return a long integer."""
        return integer_of(text)

    def floating(self, text: Any, _node: Any) -> float:
        """Return a float that JSON cannot hold."""
        return float_of(text)

    def binary(self, value: Any, node: Any) -> Any:
        """Return bytes, 8-bit text or a bytearray."""
        if isinstance(value, dict) and isinstance(value.get("$tensor"), str):
            tensor = self.tensors.tensor(value["$tensor"])
            if tensor.dtype != torch.uint8 or tensor.dim() != 1 or not tensor.is_contiguous():
                raise self.sidecar.wrong("keeps bytes in a tensor of something else")
            data = tensor.numpy().tobytes()
        else:
            data = bytes_of(value)
        return bytearray(data) if "$bytearray" in node else data

    def name(self, value: Any, _node: Any) -> Any:
        """Return what a name stands for: a type, a dtype, or a record of the name."""
        name = self.text(value)
        known = named_value(name)
        return known if known is not None else Record(_dotted(name), args=None)

    def extension(self, code: Any, _node: Any) -> Record:
        """Return the record of an extension code."""
        return Record("", args=(code,))

    def text(self, value: Any) -> str:
        """Return a text; refuse anything else."""
        if not isinstance(value, str):
            raise self.sidecar.wrong("holds a name that is no text")
        return value

    # -- containers ------------------------------------------------------------------------------

    def items(self, value: Any) -> list[Any]:
        """Return the items of a container; refuse anything else."""
        if not isinstance(value, list):
            raise self.sidecar.wrong("holds a container that is no list")
        return value

    def table(self, made: dict[Any, Any], content: Any) -> Any:
        """Return a dictionary, to be filled with a JSON object or a list of pairs."""

        def fill() -> None:
            if isinstance(content, dict):
                made.update((key, self.build(value)) for key, value in content.items())
                return
            for pair in self.items(content):
                if not isinstance(pair, list) or len(pair) != 2:
                    raise self.sidecar.wrong("holds a pair that is none")
                made[self.key(pair[0])] = self.build(pair[1])

        self.later(made, fill)
        return made

    def key(self, node: Any) -> Any:
        """Return a dictionary's key or a set's element."""
        made = self.build(node)
        try:
            hash(made)
        except TypeError:
            raise self.sidecar.wrong("has a key that cannot be one") from None
        return made

    def ordered(self, content: Any, node: Any) -> Any:
        """Return an OrderedDict, with its attributes."""
        made = self.table(collections.OrderedDict(), content)
        self.attributes(made, node.get("attributes"))
        return made

    def attributes(self, made: Any, node: Any) -> None:
        """Give an object its attributes, when all is there."""
        if node is None:
            return
        held = self.build(node)

        def finish() -> None:
            if isinstance(held, dict) and all(isinstance(key, str) for key in held):
                vars(made).update(held)

        self.last.append(finish)

    def tuple_of(self, value: Any, _node: Any) -> tuple[Any, ...]:
        """Return a tuple; tuples within tuples cost no stack."""
        frames: list[tuple[Iterator[Any], list[Any], int]] = [(iter(self.items(value)), [], -1)]
        while True:
            items, made, number = frames[-1]
            for item in items:
                inner, inner_number = self.inner_tuple(item)
                if inner is not None:
                    frames.append((iter(self.items(inner)), [], inner_number))
                    break
                made.append(self.build(item))
            else:
                done = tuple(made)
                frames.pop()
                if number >= 0:
                    self.shared[number] = done
                    self.making.discard(number)
                if not frames:
                    return done
                frames[-1][1].append(done)

    def inner_tuple(self, node: Any) -> tuple[Any, int]:
        """Return the items of a tuple that is not made yet, and its number in the table or -1."""
        if not isinstance(node, dict):
            return None, -1
        if "$tuple" in node:
            return node["$tuple"], -1
        number = node.get("$ref")
        if type(number) is not int or not 0 <= number < len(self.shared):
            return None, -1
        told = self.sidecar.shared[number]
        if (
            self.shared[number] is not _UNMADE
            or not isinstance(told, dict)
            or number in self.making
        ):
            return None, -1
        if "$tuple" not in told:
            return None, -1
        self.making.add(number)
        return told["$tuple"], number

    def frozen(self, value: Any, _node: Any) -> frozenset[Any]:
        """Return a frozen set."""
        return frozenset(self.key(item) for item in self.items(value))

    def set_of(self, value: Any, _node: Any) -> set[Any]:
        """Return a set."""
        made: set[Any] = set()
        self.later(made, lambda: made.update(self.key(item) for item in self.items(value)))
        return made

    def complex_of(self, value: Any, _node: Any) -> complex:
        """Return a complex number."""
        return complex_of([self.build(part) for part in self.items(value)])

    # -- tensors and objects ---------------------------------------------------------------------

    def tensor(self, value: Any, node: Any) -> Any:
        """Return a tensor, with its quantiser, attributes and class."""
        name = self.text(value)
        try:
            if "quantizer" in node:
                like = quantized_like(self.complete(node["quantizer"]))
                made = self.tensors.quantized(name, like)
            elif len(node) == 1:
                return self.tensors.tensor(name)
            else:
                # Its own object beside others of the same elements.
                made = self.tensors.tensor(name).detach()
                made.requires_grad_(self.tensors.view(name)[0].requires_grad)
        except (OddError, RuntimeError, TypeError, ValueError) as error:
            raise self.sidecar.wrong(f"tensor {name[:80]} cannot be made: {error}") from None
        kind = node.get("class", "torch:Tensor")
        if kind in ("torch.nn.parameter:Parameter", "torch.nn.parameter:Buffer"):
            made = getattr(torch.nn, kind.rpartition(":")[2])(made.detach(), made.requires_grad)
        elif kind != "torch:Tensor":
            state = node.get("attributes")
            return Record(_dotted(self.text(kind)), (made,), state=self.build(state))
        self.attributes(made, node.get("attributes"))
        return made

    def array(self, value: Any, _node: Any) -> Any:
        """Return a NumPy array."""
        name = self.text(value)
        if name not in self.arrays:
            self.arrays[name] = self.tensors.array(name)
        return self.arrays[name]

    def storage(self, number: Any, node: Any) -> Any:
        """Return a storage that stands in the tree by itself."""
        found = self.tensors.storage(number)
        if str(node.get("class")).rpartition(":")[2] == "UntypedStorage":
            return found
        make: Any = torch.storage.TypedStorage
        return make(wrap_storage=found, dtype=self.tensors.dtype_of(number), _internal=True)

    def object(self, value: Any, node: Any) -> Any:
        """Return an object: a plain value that is known, else a record."""
        name = self.text(value)
        if name in MAKERS:
            try:
                return self.known(name, node)
            except _REFUSALS:
                pass  # not what a pickler writes: it stays what it says
        return self.record(_dotted(name), node)

    def known(self, name: str, node: Any) -> Any:
        """Return an object of a type that is known here."""
        args = tuple(self.complete(item) for item in self.items(node.get("args", [])))
        kwargs = self.complete(node.get("kwargs"))
        # A state that becomes attributes may hold the object itself, so it is given afterwards.
        later = name in _STATE_LATER
        state = node.get("state")
        made = make(name, args, kwargs, {} if later and state is not None else self.complete(state))
        if "items" in node:
            if not isinstance(made, collections.deque):
                raise OddError("items")
            self.later(made, lambda: made.extend(map(self.build, self.items(node["items"]))))
        if "pairs" in node:
            if not isinstance(made, dict):
                raise OddError("pairs")
            pairs = node["pairs"]
            self.table(made, pairs.get("$dict", pairs) if isinstance(pairs, dict) else pairs)
        if later and isinstance(made, WITH_ATTRIBUTES):
            self.attributes(made, state)
        return made

    def record(self, name: str, node: Any, function: Any = None) -> Record:
        """Return a record; what it holds follows, so that it may hold itself."""
        made = Record(name)

        def fill() -> None:
            args = node.get("args", [])
            made.args = self.tuple_of(args, None) if isinstance(args, list) else (self.build(args),)
            made.function = self.build(function)
            made.kwargs = self.build(node.get("kwargs"))
            made.state = self.build(node.get("state"))
            made.items = self.build(node["items"]) if "items" in node else None
            made.pairs = self.build(node["pairs"]) if "pairs" in node else None

        self.later(made, fill)
        return made

    def call(self, value: Any, node: Any) -> Record:
        """Return the record of a call of something that is no name."""
        return self.record("", node, value)


_STATE_LATER: Final = frozenset({"argparse:Namespace", "types:SimpleNamespace"})

_MARKS: Final[dict[str, Callable[[_Builder, Any, Any], Any]]] = {
    "$ref": _Builder.reference,
    "$int": _Builder.integer,
    "$float": _Builder.floating,
    "$text": _Builder.binary,
    "$bytes": _Builder.binary,
    "$bytearray": _Builder.binary,
    "$global": _Builder.name,
    "$extension": _Builder.extension,
    "$dict": lambda self, value, _: self.table({}, value),
    "$ordered": _Builder.ordered,
    "$tuple": _Builder.tuple_of,
    "$frozenset": _Builder.frozen,
    "$set": _Builder.set_of,
    "$complex": _Builder.complex_of,
    "$tensor": _Builder.tensor,
    "$array": _Builder.array,
    "$storage": _Builder.storage,
    "$object": _Builder.object,
    "$call": _Builder.call,
}


def _dotted(name: str) -> str:
    """Return a name as Python writes it."""
    return name.replace(":", ".", 1)
