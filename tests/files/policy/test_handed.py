"""Functions that are called by what they are handed to, and not by the pickle itself."""

from __future__ import annotations

import collections
import functools
import operator
import pickle

import pytest
from tests.files.pickles.assembler import Raw, build, call, name, pickled, push

from everybit.files.pickles.reach import find_reached
from everybit.files.pickles.stream import read_pickles
from everybit.files.policy.judging import judge

GETATTR = name("builtins", "getattr")
GETITEM = name("operator", "getitem")
IMPORT = name("importlib", "import_module")
PARTIAL = name("functools", "partial")
NAMESPACE = name("argparse", "Namespace")
RELU = name("torch.nn.functional", "relu")
SOFTMAX = name("torch.nn.functional", "softmax")
ATTRGETTER = name("operator", "attrgetter")
MATRIX = name("numpy", "matrix")
REBUILD = name("torch._tensor", "_rebuild_from_type_v2")


def dangers(data: bytes) -> dict[str, str]:
    """How dangerous each name of a pickle is that is not safe."""
    found = [(item.qualified, judge(item)) for item in find_reached(read_pickles(data).pickles[0])]
    return {name: str(told.danger) for name, told in found if str(told.danger) != "safe"}


def having(**attributes) -> Raw:
    """A Namespace with attributes, set by BUILD."""
    return build(call(NAMESPACE), attributes)


def by_softmax(function: Raw, value) -> Raw:
    """What torch's `softmax` calls: `function(value)`."""
    return call(SOFTMAX, having(softmax=function), value)


def after(first: Raw, then: Raw) -> Raw:
    """Both, of which the second stays."""
    return Raw(first + b"0" + then)


@pytest.mark.parametrize(
    "value",
    [
        by_softmax(call(ATTRGETTER, "__init__.__globals__"), NAMESPACE),
        by_softmax(ATTRGETTER, "system"),
        after(by_softmax(IMPORT, "os"), call(IMPORT, "builtins:object")),
        after(call(GETATTR, name("builtins", "object"), "__new__"),
              by_softmax(call(PARTIAL, GETATTR, RELU), "__globals__")),
        after(call(GETATTR, name("builtins", "object"), "__new__"), having(append=GETATTR)),
        {"kept": [(GETATTR,)], "called": call(GETATTR, name("builtins", "object"), "__new__")},
        Raw(call(PARTIAL, GETITEM, having(), "x") + b"q\x00)R0h\x00"
            + push((GETATTR, (name("builtins", "object"), "__new__"), {}, None)) + b"b"),
        Raw(GETATTR + push([RELU, "__globals__"]) + b"R"),
    ],
    ids=["getter", "getter class", "import", "getattr", "append", "kept", "partial", "a list"],
)  # fmt: skip
def test_what_reads_attributes_or_imports_is_dangerous_where_others_call_it(value):
    assert "dangerous" in dangers(pickled(value)).values()


def test_a_getter_that_is_kept_is_unknown_and_no_error():
    kept = {"key": operator.itemgetter(1), "by": operator.attrgetter("score")}
    assert set(dangers(pickle.dumps(kept)).values()) == {"unknown"}


def test_what_is_named_as_a_value_is_called_by_no_pickler():
    assert dangers(pickled({"activation": RELU, "dtype": MATRIX})) == {}
    assert dangers(pickled(by_softmax(RELU, 1))) == {"torch.nn.functional.softmax": "unknown"}
    assert dangers(pickled(call(MATRIX, having()))) == {"numpy.matrix": "unknown"}


PLACE = {"data": (4096, False), "shape": (1,), "typestr": "|u1", "version": 3}
KEY = "__array_interface__"
MADE_KEY = call(name("_codecs", "encode"), "__neenl_vagresnpr__", "rot13")


@pytest.mark.parametrize(
    "value",
    [
        build(call(NAMESPACE), {KEY: PLACE}),
        build(call(NAMESPACE), (None, {KEY: PLACE})),
        Raw(call(NAMESPACE) + b"(" + MADE_KEY + push(PLACE) + b"d" + b"b"),
        build(call(PARTIAL, NAMESPACE), (NAMESPACE, (), {KEY: PLACE}, None)),
        build(call(NAMESPACE), call(name("collections", "OrderedDict"), [(KEY, PLACE)])),
        Raw(NAMESPACE + b")" + push({KEY: PLACE}) + b"\x92"),
        call(REBUILD, NAMESPACE, NAMESPACE, (), {KEY: PLACE}),
    ],
    ids=["build", "slots", "computed", "partial", "ordered", "keywords", "state"],
)
def test_an_attribute_that_gives_a_place_in_memory_is_dangerous(value):
    assert "dangerous" in dangers(pickled(value)).values()


@pytest.mark.parametrize("protocol", range(6))
def test_states_with_keys_of_other_kinds_are_none(protocol):
    held = collections.Counter({b"bytes": 1, ("pair", 2): 2})
    kept = functools.partial(int, base=2)
    state = pickle.dumps([held, kept, {KEY: 1}], protocol)
    assert dangers(state) == {}


def outside(*parts) -> bytes:
    """A pickle whose object lies outside of it."""
    return pickled(Raw(push(parts) + b"Q"), 2)


def test_a_made_up_class_whose_source_torch_would_write_to_a_file_is_dangerous():
    made = call(name("enum", "Enum"), "file", {"dump_patches": 1})
    told = dangers(outside("module", made, "a.py", "text"))
    assert told["torch.serialization.dump_patches"] == "dangerous"
    assert "dangerous" in dangers(outside(made, "a.py", "text")).values()
    linear = name("torch.nn.modules.linear", "Linear")
    assert dangers(outside("module", linear, "a.py", "text")) == {}
    assert dangers(outside(linear, "a.py", "text")) == {}
    nested = call(GETATTR, name("x", "Outer"), "Inner")
    assert "dangerous" not in dangers(outside("module", nested, "a.py", "text")).values()
