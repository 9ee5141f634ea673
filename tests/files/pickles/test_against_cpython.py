"""The machine against CPython's own C unpickler, over damaged harmless pickles."""

from __future__ import annotations

import contextlib
import copyreg
import pickle
import warnings
from collections import Counter

import pytest
from tests.files.pickles.mutants import mutants, seeds
from tests.files.pickles.reference import Comparison, Reference, events_of

from everybit.files.pickles.nodes import Blob
from everybit.files.pickles.stream import read_pickles

# CPython warns of escapes that mean nothing, and of damaged memory views.
pytestmark = pytest.mark.filterwarnings("ignore")

MUTANTS = 6000


@pytest.fixture(autouse=True)
def extension():
    """One code of the extension registry, as an application might have it."""
    key = ("ext", "name")
    copyreg._extension_registry[key] = 0x42
    copyreg._inverted_registry[0x42] = key
    yield
    del copyreg._extension_registry[key], copyreg._inverted_registry[0x42]
    copyreg._extension_cache.pop(0x42, None)


def compare(data: bytes) -> str:
    """What CPython came to ("read" or "failed"); raises where we come to anything else."""
    copyreg._extension_cache.pop(0x42, None)
    reference = Reference(data)
    try:
        value = reference.load()
        failed = None
    except Exception as error:  # whatever a hostile pickle provokes
        failed = error
    stream = read_pickles(data)
    # Where loaders differ there are several readings; this one has to be among them.
    readings = [stream.pickles[0], *stream.others[:1]]
    for ours in readings[:-1]:
        with contextlib.suppress(AssertionError):
            return compare_reading(data, reference, None if failed else value, failed, ours)
    value = None if failed else value
    return compare_reading(data, reference, value, failed, readings[-1])


def compare_reading(data, reference, value, failed, ours) -> str:
    """What CPython came to; raises where one of our readings is another one."""
    calls = [event for event in reference.events if event[0] == "call"]
    imports = [e for e in reference.events if e[0] == "import" and e[1:] != ("ext", "name")]
    found = events_of(ours)
    assert [e for _, e in found if e[0] == "call"][: len(calls)] == [
        (kind, "" if name in ("ext.name", "persistent") else name, count)
        for kind, name, count in calls
    ], data
    assert set(imports) <= {event for _, event in found}, data
    if failed is not None:
        return "failed"
    assert ours.error is None, (data, ours.error)
    if not any(isinstance(touch.target, Blob) for touch in ours.touches):
        assert Comparison().same(value, ours.result), data
    return "read"


@pytest.mark.parametrize("data", seeds(), ids=lambda data: repr(data[:24]))
def test_seeds_read_the_same(data):
    compare(data)


def test_mutants_are_read_where_cpython_reads_them_and_calls_before_a_fault_are_recorded():
    came_to = Counter(compare(data) for data in mutants(5, MUTANTS))
    assert came_to["read"] > MUTANTS // 10
    assert came_to["failed"] > MUTANTS // 10


def test_the_comparison_can_fail():
    data = pickle.dumps([1, {"a": 2}])
    ours = read_pickles(data).pickles[0].result
    assert Comparison().same([1, {"a": 2}], ours)
    assert not Comparison().same([1, {"a": 3}], ours)
    assert not Comparison().same([1, {"b": 2}], ours)
    assert not Comparison().same((1, {"a": 2}), ours)


@pytest.mark.parametrize(
    "text",
    [b"plain", rb"\x41\n\t\0\101", rb"\q\\q\|", rb"\400\777\377", rb"a\'b\"", rb"\\", b"\\\xff"],
)
def test_strings_are_unescaped_as_cpython_does_and_without_a_warning(text):
    data = b"S'" + text + b"'\n."
    wanted = pickle.loads(data, encoding="bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_pickles(data).pickles[0].result.data == wanted
