from __future__ import annotations

import io
import pickle
import struct
import sys
import types

import numpy as np
import pytest
from tests.files.pickles.assembler import call, name, pickled

from everybit.files.damage import TooLargeError
from everybit.files.pickles.stream import read_pickles


def frame(length: int) -> bytes:
    return b"\x95" + struct.pack("<Q", length)


def test_pickles_that_follow_each_other_are_all_read():
    stream = read_pickles(b"".join(pickle.dumps(number) for number in (1, 2, 3)))
    assert [found.result for found in stream.pickles] == [1, 2, 3]
    assert stream.error is None
    assert stream.end == stream.size
    assert [found.start for found in stream.pickles] == [0, 5, 10]


def test_what_follows_the_last_stop_is_a_broken_pickle():
    stream = read_pickles(b"K\x01.\xff\xff")
    assert stream.end == 3
    assert len(stream.whole) == 1
    assert stream.error is not None
    assert stream.error.damage.evidence["position"] == 3


def test_nothing_is_a_broken_pickle_too():
    assert read_pickles(b"").error is not None


def test_one_unpickler_for_several_pickles_keeps_its_memo():
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 2)
    shared = ["shared"]
    pickler.dump(shared)
    pickler.dump([shared, shared])
    first, second = read_pickles(buffer.getvalue()).pickles
    assert second.error is None
    assert second.result.items[0] is first.result


def test_the_bound_on_opcodes_counts_all_pickles():
    stream = read_pickles(b"N." * 100, max_steps=50)
    assert isinstance(stream.error, TooLargeError)
    assert len(stream.whole) == 25


def test_many_small_pickles_take_linear_time():
    assert len(read_pickles(b"N." * 50_000).pickles) == 50_000


def test_a_line_across_the_end_of_a_frame_is_read_as_both_loaders_read_it():
    # From a file the C unpickler drops what is left of the frame; from memory it does not.
    data = b"\x80\x04" + frame(5) + b"cnice" + b"os\nsystem\n."
    stream = read_pickles(data)
    assert stream.pickles[0].globals[0].module == "niceos"
    assert stream.others[0].globals[0].module == "os"
    assert any(oddity.trick for oddity in stream.pickles[0].oddities)

    class Names(pickle.Unpickler):
        def find_class(self, module: str, path: str) -> str:
            return module

    assert Names(io.BytesIO(data)).load() == "os"


def test_a_frame_beyond_its_stop_hides_the_next_pickle_from_one_loader():
    data = b"\x80\x04" + frame(4) + b"N." + b"K\x01" + b"K\x02."
    stream = read_pickles(data)
    assert stream.pickles[0].result is None
    assert stream.others[1].result == 2


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_frames_of_picklers_are_no_trick(protocol):
    data = pickle.dumps([["text" * 1000, b"x" * 100_000] for _ in range(50)], protocol)
    stream = read_pickles(data)
    assert not stream.others
    assert stream.pickles[0].oddities == []


@pytest.fixture
def wrapper(monkeypatch):
    """joblib's class, by name."""

    class NumpyArrayWrapper:
        pass

    NumpyArrayWrapper.__module__ = "joblib.numpy_pickle"
    NumpyArrayWrapper.__qualname__ = "NumpyArrayWrapper"
    module = types.ModuleType("joblib.numpy_pickle")
    module.NumpyArrayWrapper = NumpyArrayWrapper
    monkeypatch.setitem(sys.modules, "joblib", types.ModuleType("joblib"))
    monkeypatch.setitem(sys.modules, "joblib.numpy_pickle", module)
    return NumpyArrayWrapper


def joblib_dump(wrapper, array, protocol, *, aligned=True) -> bytes:
    """A list of an array and a number, as joblib writes it."""
    made = wrapper()
    made.subclass, made.shape, made.order = np.ndarray, array.shape, "C"
    made.dtype, made.allow_mmap = array.dtype, not array.dtype.hasobject
    if aligned:
        made.numpy_array_alignment_bytes = 16
    head = pickle.dumps([made, 7], protocol)
    cut = head.rindex(b"b") + 1  # behind BUILD of the wrapper
    if protocol >= 4:
        head = head[:2] + head[11:]  # joblib ends the frame before the elements
        cut -= 9
    if array.dtype.hasobject:
        return head[:cut] + pickle.dumps(array, 2) + head[cut:]
    padding = b"\x05" + b"\xff" * 5 if aligned else b""
    return head[:cut] + padding + array.tobytes() + head[cut:]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("array", "aligned"),
    [
        (np.arange(40.0), True),
        (np.arange(40.0), False),
        (np.array(["ab", "c"]), True),
        (np.zeros(3, dtype=[("x", "<f4"), ("y", "<i8")]), True),
        (np.array([1, "x", None], dtype=object), True),
        (np.zeros((0, 3), np.float32), True),
    ],
    ids=["floats", "unaligned", "text", "record", "objects", "empty"],
)
def test_raw_arrays_of_joblib_are_passed_over(wrapper, array, aligned, protocol):
    data = joblib_dump(wrapper, array, protocol, aligned=aligned)
    stream = read_pickles(data, raw_arrays=True)
    assert stream.error is None
    assert stream.pickles[0].result.items[1] == 7
    assert stream.end == len(data)


def test_elements_that_are_opcodes_are_read_as_such_too(wrapper):
    evil = b"0" + pickled(call(name("os", "system"), "ls"))[2:]
    evil += b"." * (-len(evil) % 8)
    data = joblib_dump(wrapper, np.frombuffer(evil, np.float64), 2, aligned=False)
    stream = read_pickles(data, raw_arrays=True)
    assert stream.error is None
    assert any(found.calls and found.calls[-1].name == "os.system" for found in stream.others)


def test_an_array_that_ends_early_is_an_error(wrapper):
    data = joblib_dump(wrapper, np.arange(40.0), 2)
    assert read_pickles(data[:200], raw_arrays=True).error is not None
