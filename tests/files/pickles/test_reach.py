from __future__ import annotations

import pickle
import time

import pytest
from tests.files.pickles.assembler import Raw, build, call, name, new, pickled, push

from everybit.files.pickles.reach import Via, find_reached
from everybit.files.pickles.stream import read_pickles


def reached(data: bytes):
    """What the last pickle reaches, by name."""
    return {found.qualified: found for found in find_reached(read_pickles(data).pickles[-1])}


GETATTR = name("builtins", "getattr")
IMPORT = name("importlib", "import_module")
OS = call(IMPORT, "os")


@pytest.mark.parametrize(
    ("value", "wanted", "via"),
    [
        (call(name("os", "system"), "ls"), "os.system", Via.IMPORT),
        (call(name("torch.serialization", "os.system"), "ls"), "torch.serialization.os.system",
         Via.IMPORT),
        (call(call(GETATTR, OS, "system"), "ls"), "os.system", Via.ATTRIBUTE),
        (call(call(GETATTR, name("numpy", "os"), "system"), "ls"), "numpy.os.system",
         Via.ATTRIBUTE),
        (call(call(call(name("operator", "attrgetter"), "system"), OS), "ls"), "os.system",
         Via.ATTRIBUTE),
        (call(call(name("operator", "methodcaller"), "system", "ls"), OS), "os.system",
         Via.ATTRIBUTE),
        (call(call(call(name("operator", "itemgetter"), "system"),
                   call(name("builtins", "vars"), OS)), "ls"), "os.system", Via.ATTRIBUTE),
        (call(call(name("operator", "getitem"), call(name("builtins", "vars"), OS), "system"),
              "ls"), "os.system", Via.ATTRIBUTE),
        (call(call(name("builtins", "dict.get"), name("numpy", "__builtins__"), "exec"), "1"),
         "numpy.__builtins__.exec", Via.ATTRIBUTE),
        (call(call(name("builtins", "object.__getattribute__"), OS, "system"), "ls"),
         "os.system", Via.ATTRIBUTE),
        (call(call(name("os", "__getattribute__"), "system"), "ls"), "os.system", Via.ATTRIBUTE),
        (call(call(GETATTR, name("builtins", "__import__"), "__call__"), "os"),
         "builtins.__import__.__call__", Via.ATTRIBUTE),
        (call(call(name("functools", "partial"), name("os", "system")), "ls"), "os.system",
         Via.IMPORT),
        (call(call(name("pkgutil", "resolve_name"), "os:system"), "ls"), "os.system",
         Via.ATTRIBUTE),
        (call(name("torch._tensor", "_rebuild_from_type_v2"), name("os", "system"), None, ("ls",),
              None), "os.system", Via.IMPORT),
        (call(name("copyreg", "_reconstructor"), name("x", "Klass"), name("builtins", "object"),
              None), "x.Klass", Via.IMPORT),
        (call(call(name("x", "make")), 1), "x.make()", Via.RESULT),
        (call(call(GETATTR, new(name("x", "Klass")), "run")), "x.Klass().run", Via.RESULT),
        (call(call(GETATTR, push("text"), "format"), 1), "builtins.str().format", Via.RESULT),
    ],
)  # fmt: skip
def test_a_call_is_found_however_its_function_is_reached(value, wanted, via):
    found = reached(pickled(value))
    assert wanted in found, list(found)
    assert found[wanted].called
    assert found[wanted].via is via


@pytest.mark.parametrize(
    "data",
    [
        b"(S'ls'\nios\nsystem\n.",
        b"(cos\nsystem\nS'ls'\no.",
        b"cos\nsystem\n(S'ls'\ntR.",
        b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lst\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85}\x92.",
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x940h\x00h\x01\x93\x8c\x02ls\x85R.",
        b"Sos\n0S'os'\nS'system'\n\x93(S'ls'\ntR."[5:],
    ],
)
def test_every_opcode_that_calls(data):
    found = reached(data)["os.system"]
    assert found.called
    assert found.arguments == ["'ls'"]


def test_names_of_python_2_are_those_of_python_3_below_protocol_3():
    found = reached(b"c__builtin__\neval\n(S'1'\ntR.")
    assert found["builtins.eval"].raw == "__builtin__.eval"
    assert "subprocess.getoutput" in reached(b"ccommands\ngetoutput\n(S'1'\ntR.")
    assert "itertools.filterfalse" in reached(b"\x80\x02citertools\nifilterfalse\n.")
    assert "commands.getoutput" in reached(b"\x80\x03ccommands\ngetoutput\n(S'1'\ntR.")
    # The protocol in force counts, not the highest or the first one.
    assert "subprocess.getoutput" in reached(b"\x80\x04\x80\x02ccommands\ngetoutput\n.")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (pickled(build(name("x", "Klass"), {"__reduce__": 1})), "build"),
        (pickled(build(name("x", "Klass"), (None, {"run": 1}))), "build"),
        (pickled(build(call(GETATTR, name("x", "Klass"), "run"), {"a": 1})), "build"),
        # A second BUILD of nothing does not hide the first.
        (pickled(build(build(call(GETATTR, name("x", "Klass"), "run"), {"a": 1}), None)), "build"),
        (pickled(Raw(name("x", "Klass") + push("a") + b"a")), "append"),
        (b"\x80\x04" + name("x", "Klass") + b"(K\x01K\x02u.", "set_item"),
        (b"\x80\x04" + name("x", "Klass") + b"(K\x01\x90.", "add"),
        (b"\x80\x04" + name("x", "Klass") + b"(K\x01e.", "append"),
    ],
)
def test_a_change_of_what_the_pickle_did_not_make_is_found(data, kind):
    (found,) = [
        item for item in find_reached(read_pickles(data).pickles[0]) if item.via is Via.CHANGE
    ]
    assert found.calls[0][0] == kind
    assert found.module == "x"


def test_a_change_of_what_the_pickle_made_is_none():
    own = build(new(name("x", "Klass")), {"a": 1})
    assert all(found.via is not Via.CHANGE for found in reached(pickled(own)).values())


def test_a_partial_is_made_by_the_pickle_and_its_state_gives_the_function():
    partial = call(name("functools", "partial"), name("x", "Klass"))
    whole = build(partial, (name("os", "system"), (), {}, None))
    assert all(found.via is not Via.CHANGE for found in reached(pickled(whole)).values())
    assert not reached(pickled(whole))["os.system"].called
    assert reached(pickled(call(whole, "ls")))["os.system"].called
    assert reached(pickled(call(partial)))["x.Klass"].called


def test_computed_names_are_told_as_unknown_and_not_left_out():
    computed = call(name("builtins", "str"), "os")
    found = reached(pickled(Raw(computed + push("system") + b"\x93")))
    assert "?.system" in found
    attribute = reached(pickled(call(call(GETATTR, OS, computed), "ls")))
    assert attribute["os.?"].called
    assert not attribute["builtins.getattr"].sure
    assert reached(pickled(call(GETATTR, OS, "name")))["builtins.getattr"].sure


def test_names_of_the_extension_registry():
    assert "copyreg.extension 66" in reached(b"\x82\x42.")
    own = push(call(name("copyreg", "add_extension"), "os", "system", 66)) + b"0\x82\x42"
    assert "os.system" in reached(b"\x80\x04" + own + b"(K\x01tR.")


def test_what_is_called_before_a_fault_is_found():
    whole = pickled(call(name("os", "system"), "ls"))
    for end in (b"\xff", b"", b"h\xee", b"K", b"0000000"):
        assert reached(whole[:-1] + end)["os.system"].called


def test_calls_and_constant_arguments_are_kept():
    found = reached(
        pickled([call(name("x", "f"), n, "a" * 500, None, [1, {2: 3}]) for n in (1, 2)])
    )
    one = found["x.f"]
    assert one.num_calls == 2
    assert [args[0] for args in one.calls] == ["1", "2"]
    assert len(one.arguments[1]) <= 100
    assert one.arguments[3] == "[1, {2: 3}]"
    assert one.position < one.positions[1]


def test_a_long_chain_takes_linear_time():
    value = OS
    for _ in range(3000):
        value = call(GETATTR, value, "x" * 50)
    deep = name("x", "f")
    for _ in range(3000):
        deep = type(deep)(deep + b")R")
    began = time.process_time()
    found = find_reached(read_pickles(pickled((value, deep))).pickles[0])
    assert time.process_time() - began < 3
    assert all(len(item.qualified) < 1200 for item in found)


def test_nothing_is_reached_by_plain_values():
    assert reached(pickle.dumps({"a": [1, 2.5, "os", b"system"]})) == {}


ATTRGETTER, ITEMGETTER = name("operator", "attrgetter"), name("operator", "itemgetter")
RECONSTRUCT = name("copyreg", "_reconstructor")
REBUILD = name("torch._tensor", "_rebuild_from_type_v2")
GLOBALS = "__init__.__globals__"


@pytest.mark.parametrize(
    "reach_globals",
    [
        call(call(RECONSTRUCT, ATTRGETTER, ATTRGETTER, GLOBALS), name("argparse", "Namespace")),
        call(call(name("copyreg", "__newobj__"), ATTRGETTER, GLOBALS),
             name("argparse", "Namespace")),
        call(call(name("copyreg", "__newobj_ex__"), ATTRGETTER, (GLOBALS,), {}),
             name("argparse", "Namespace")),
        call(new(ATTRGETTER, GLOBALS), name("argparse", "Namespace")),
        call(REBUILD, call(ATTRGETTER, GLOBALS), None, (name("argparse", "Namespace"),), {}),
        call(REBUILD, REBUILD, None,
             (call(ATTRGETTER, GLOBALS), None, (name("argparse", "Namespace"),), {}), {}),
        call(call(name("functools", "partial"), call(ATTRGETTER, GLOBALS),
                  name("argparse", "Namespace"))),
        call(build(call(name("functools", "partial"), name("builtins", "int")),
                   (call(ATTRGETTER, GLOBALS), (name("argparse", "Namespace"),), {}, None))),
        call(call(name("functools", "partial"), GETATTR, name("argparse", "Namespace")), GLOBALS),
    ],
    ids=["reconstructor", "newobj", "newobj_ex", "opcode", "rebuild", "rebuild twice", "partial",
         "partial rebuilt", "partial getattr"],
)  # fmt: skip
def test_chains_that_name_only_harmless_things_are_followed(reach_globals):
    shell = call(call(ITEMGETTER, "system"), call(call(ITEMGETTER, "_os"), reach_globals))
    found = reached(pickled(call(shell, "ls")))
    wanted = "argparse.Namespace.__init__.__globals__._os.system"
    assert wanted in found, list(found)
    assert found[wanted].called


def test_every_key_of_a_getter_counts():
    found = reached(pickled(call(call(ATTRGETTER, "a", "__globals__"), name("x", "f"))))
    assert {"x.f.a", "x.f.__globals__"} <= set(found)
