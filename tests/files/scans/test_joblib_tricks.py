"""Pickles that joblib reads one way and others another way: by where raw elements end."""

from __future__ import annotations

import pytest
from tests.files.pickles.assembler import Raw, build, call, name, new, pickled, push

from everybit import scan

np = pytest.importorskip("numpy")

WRAPPER = name("joblib.numpy_pickle", "NumpyArrayWrapper")
DTYPE = name("numpy", "dtype")
EVIL = b"0cposix\nsystem\n(S'echo ran'\ntR."


def dtype(kind: str, size: int = -1, flags: int = 0) -> Raw:
    """A dtype as NumPy pickles it: what the state says is what NumPy believes."""
    state = (3, "|", None, None, None, size, 1 if size >= 0 else -1, flags)
    return build(call(DTYPE, kind, False, True), state)


def wrapped(kind: Raw, count: int = 1, made: Raw | None = None, **more) -> Raw:
    """joblib's wrapper of an array, behind which raw elements follow."""
    fields = {"subclass": name("numpy", "ndarray"), "shape": (count,), "order": "C"}
    return build(made or new(WRAPPER), fields | {"dtype": kind, "allow_mmap": False} | more)


def told(tmp_path, data: bytes) -> set[tuple[str, str]]:
    """Rule and severity of what is told of a file, but for what torch refuses."""
    path = tmp_path / "model.joblib"
    path.write_bytes(data)
    findings = scan(path).findings
    return {(found.rule, str(found.severity)) for found in findings if found.rule != "PKL204"}


def hidden(before: bytes) -> bytes:
    """Bytes that hold code: whoever does not step into them sees a text of bytes."""
    return b"B" + (len(before) + len(EVIL)).to_bytes(4, "little") + before + EVIL + b"0."


def test_an_element_of_another_size_than_the_dtype_says_is_an_error(tmp_path):
    raw = bytes(8) + hidden(b"xxx")
    data = pickled(wrapped(dtype("V8", 16)))[:-1] + raw
    assert "error" in {severity for _, severity in told(tmp_path, data)}


def test_a_dtype_that_says_it_holds_objects_is_an_error(tmp_path):
    # Recalled from an empty memo these are other names than for a plain unpickler.
    inner = b"\x8c\x05posix\x94\x8c\x06system\x9400h\x00h\x01\x93" + push(("echo ran",)) + b"R."
    outer = Raw(b"\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x9400")
    data = pickled(Raw(outer + wrapped(dtype(f"V{len(inner)}", len(inner), 0x3F))))[:-1]
    assert "error" in {severity for _, severity in told(tmp_path, data + inner + b".")}


@pytest.mark.parametrize(
    "made",
    [
        call(call(name("functools", "partial"), name("copyreg", "__newobj__"), WRAPPER)),
        call(name("copyreg", "__newobj_ex__"), WRAPPER, (), {}),
    ],
    ids=["partial", "newobj_ex"],
)
def test_a_wrapper_that_is_made_by_other_ways_is_an_error(tmp_path, made):
    raw = hidden(b"xxx")
    data = pickled(wrapped(dtype("u1"), 8, made))[:-1] + raw
    assert ("PKL203", "error") in told(tmp_path, data)


def test_what_only_looks_like_a_wrapper_hides_nothing(tmp_path):
    namespace = new(name("argparse", "Namespace"), WRAPPER)
    first = pickled(wrapped(dtype("u1"), 3))[:-1] + b"\xff\xff\xff0"
    data = first + wrapped(dtype("u1"), len(EVIL), namespace) + EVIL
    assert "error" in {severity for _, severity in told(tmp_path, data)}


def test_a_state_for_what_stands_in_the_place_of_a_wrapper_is_none_of_it(tmp_path):
    objects = wrapped(dtype("O8"))
    inner = pickled(call(name("argparse", "Namespace")))
    state = push({"shape": (len(EVIL),), "dtype": dtype("u1")})
    data = pickled(objects)[:-1] + inner + state + b"b" + EVIL
    assert "error" in {severity for _, severity in told(tmp_path, data)}


def test_padding_is_there_whatever_says_so(tmp_path):
    # One byte says how much of it there is.
    raw = b"\x06" + hidden(b"x")
    data = pickled(wrapped(dtype("u1"), 0, numpy_array_alignment_bytes="16"))[:-1] + raw
    assert "error" in {severity for _, severity in told(tmp_path, data)}


def test_arrays_of_objects_and_of_numbers_after_each_other_are_no_finding(tmp_path):
    held = np.array([{"a": 1}, None, np.float64], object).dumps()
    # Read as plain opcodes, what the inner pickle recalls is what the outer one has stored.
    stored = Raw((WRAPPER + b"\x940") * 20)
    first = pickled(Raw(stored + wrapped(dtype("O8"), 3)))[:-1] + held
    again = wrapped(dtype("f4"), 2) + np.ones(2, "f4").tobytes() + b"\x86."
    assert told(tmp_path, first + again) == set()
