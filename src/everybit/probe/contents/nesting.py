"""A dataset that gives another sample than it was asked for: `return self[index + 1]`."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MISSING: Final = object()
_NAME: Final = "__getitem__"
#: What torch's own datasets give is what they were asked for; those within them are looked at.
_TORCH: Final = "torch.utils.data.dataset"
#: Samples of one batch that are told.
MAX_TOLD: Final = 64


class _Method:
    """A method that copies and pickles as the one it surrounds: a class may be sent by value."""

    def __init__(self, surrounded: Callable[[Any, Any], Any], original: Any) -> None:
        functools.update_wrapper(self, original)
        self._surrounded = surrounded
        self._original = original

    def __get__(self, dataset: Any, kind: type | None = None) -> Any:
        # Called for each sample: the function itself is one call less.
        return self if dataset is None else types.MethodType(self._surrounded, dataset)

    def __call__(self, dataset: Any, index: Any) -> Any:
        return self._surrounded(dataset, index)

    def __reduce__(self) -> Any:
        return _itself, (self._original,)


def _itself(value: Any) -> Any:
    return value


class _Calls(threading.local):
    """Calls that are under way in a thread.

    Attributes:
        dataset: What is asked in the innermost one; None with none.
        inner: Index and value of the calls that have come back within it; None with none.
    """

    dataset: Any = None
    inner: list[tuple[Any, Any]] | None = None


class _Surrounded:
    """One class whose `__getitem__` is surrounded, for all who look on; the last one undoes it."""

    def __init__(self, kind: type, original: Callable[[Any, Any], Any]) -> None:
        self.observers: list[Callable[[int, int], None]] = []
        self._kind = kind
        self._before = vars(kind).get(_NAME, _MISSING)
        calls: Any = _Calls()

        def surrounded(dataset: Any, index: Any) -> Any:
            outer, calls.dataset = calls.dataset, dataset
            held, calls.inner = calls.inner, None
            try:
                value = original(dataset, index)
            finally:
                inner, calls.inner, calls.dataset = calls.inner, held, outer
            if inner is not None:
                self._judge(index, value, inner)
            if outer is dataset:
                if held is None:
                    calls.inner = [(index, value)]
                else:
                    held.append((index, value))
            return value

        # A bound method is pickled by its name.
        self._mine = _Method(functools.update_wrapper(surrounded, original), original)
        setattr(kind, _NAME, self._mine)

    def remove(self) -> None:
        """Leave the class as it was."""
        if vars(self._kind).get(_NAME) is self._mine:
            if self._before is _MISSING:
                delattr(self._kind, _NAME)
            else:
                setattr(self._kind, _NAME, self._before)

    def _judge(self, asked: Any, value: Any, inner: list[tuple[Any, Any]]) -> None:
        for given, other in inner:
            if type(asked) is type(given) is int and asked != given and _is_same(value, other):
                for observer in self.observers:
                    observer(asked, given)
                return


_all: Final[dict[type, _Surrounded]] = {}


class Nesting:
    """Surround `__getitem__` of datasets' classes; that is undone when this object goes.

    A call for one index within a call for another, of the same object, whose value the outer call
    hands on as it is, stands in for the sample that was asked for. One that mixes two samples
    hands on something else.

    Args:
        datasets: The datasets.

    Attributes:
        found: `(asked, given)` that nobody took yet.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        found = self.found = list[tuple[int, int]]()

        def observe(asked: int, given: int) -> None:
            if len(found) < MAX_TOLD:
                found.append((asked, given))

        held = []
        for kind in {type(dataset) for dataset in datasets}:
            surrounded = _surround(kind)
            if surrounded is not None:
                surrounded.observers.append(observe)
                held.append(kind)
        self._end = weakref.finalize(self, _undo, held, observe)

    def take(self) -> tuple[tuple[int, int], ...]:
        """Return `(asked, given)` since the last call."""
        taken = tuple(self.found)
        self.found.clear()
        return taken

    def close(self) -> None:
        """Leave the classes as they were."""
        self._end()


def _surround(kind: type) -> _Surrounded | None:
    known = _all.get(kind)
    if known is not None:
        return known
    original = getattr(kind, _NAME, None)
    if not isinstance(original, types.FunctionType) or original.__module__ == _TORCH:
        return None
    try:
        made = _Surrounded(kind, original)
    except (TypeError, AttributeError):  # A class that cannot be written.
        return None
    _all[kind] = made
    return made


def _undo(kinds: list[type], observer: Callable[[int, int], None]) -> None:
    for kind in kinds:
        surrounded = _all.get(kind)
        if surrounded is not None:
            surrounded.observers.remove(observer)
            if not surrounded.observers:
                surrounded.remove()
                del _all[kind]


def handles_errors(dataset: Any) -> bool:
    """Whether the code of a dataset's `__getitem__` handles exceptions."""
    function = getattr(type(dataset), _NAME, None)
    if function is None:
        return False
    code = getattr(inspect.unwrap(function), "__code__", None)
    return bool(getattr(code, "co_exceptiontable", b""))


def _is_same(value: Any, other: Any) -> bool:
    """Whether a value is another as it is, or a new pair of the very same things."""
    if value is other:
        return value is not None
    if type(value) is not type(other) or not isinstance(value, (tuple, list)):
        return False
    return len(value) == len(other) > 0 and all(
        mine is theirs for mine, theirs in zip(value, other, strict=True)
    )
