"""Single opcodes and calls: what torch's unpickler does with them, the model says."""

import io
import pickle
import struct

import pytest
from torch import _weights_only_unpickler as torchs

from everybit.files.weights_only import read_as_torch


def _text(value):
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _call(module, name, *args):
    return f"c{module}\n{name}\n(".encode() + b"".join(args) + b"tR"


def _pickle(*parts):
    return b"\x80\x02" + b"".join(parts) + b"."


ONE, TWO = b"K\x01", b"K\x02"
EMPTY_ODICT = _call("collections", "OrderedDict")

ACCEPTED = {
    "none": (b"N",),
    "protocol 77": (b"\x80\x4d", b"N"),
    "big integer": (b"\x8a\x09" + b"\x01" * 9,),
    "empty long": (b"\x8a\x00",),
    "8-bit text": (b"U\x02\xc3\xa9",),
    "surrogate": (b"X\x03\0\0\0\xed\xa0\x80",),
    "mark left over": (b"(", ONE),
    "list": (b"](", ONE, TWO, b"e"),
    "append": (b"]", ONE, b"a"),
    "dictionary": (b"}(", ONE, TWO, _text("a"), b"Nu"),
    "key of tuples": (b"}", ONE, TWO, b"\x86", b"\x85", b"N", b"s"),
    "set item of ordered dictionary": (EMPTY_ODICT, ONE, TWO, b"s"),
    "attributes of ordered dictionary": (EMPTY_ODICT, b"}", _text("_metadata"), b"Nsb"),
    "pairs": (_call("collections", "OrderedDict", b"](", ONE, TWO, b"\x86e"),),
    "counter": (_call("collections", "Counter", b"}", ONE, TWO, b"s"),),
    "set": (_call("__builtin__", "set", b"](", ONE, TWO, b"e"),),
    "empty set": (b"\x8f",),
    "bytes": (_call("_codecs", "encode", _text("aé"), _text("latin1")),),
    "bytearray": (_call("builtins", "bytearray", _text("aé"), _text("latin-1")),),
    "complex": (_call("builtins", "complex", b"G" + b"\0" * 8, ONE),),
    "size": (_call("torch", "Size", b"(", ONE, TWO, b"t"),),
    "device": (_call("torch", "device", _text("cuda"), ONE),),
    "dtype as a key": (b"}", b"ctorch\nfloat32\n", b"Ns"),
    "layout": (_call("torch.serialization", "_get_layout", _text("torch.sparse_coo")),),
    "meta tensor": (
        _call(
            "torch._utils", "_rebuild_meta_tensor_no_storage",
            b"ctorch\nfloat32\n", b"(", ONE, TWO, b"t", b"(", TWO, ONE, b"t", b"\x89",
        ),
    ),
    "name split elsewhere": (b"ctorch.nn\nparameter.Parameter\n",),
    "memo of the object below": (b"]q\x05", b"h\x05", b"\x86"[:0]),
}  # fmt: skip

REFUSED = {
    "empty": (),
    "unknown opcode": (b"\xff",),
    "protocol 4 text": (b"\x8c\x01a",),
    "frame": (b"\x95" + b"\0" * 8, b"N"),
    "memoize": (b"N\x94",),
    "pop": (b"NN0",),
    "top below a mark": (ONE, b"(q\x00"),
    "recall of nothing": (b"h\x07",),
    "8-bit text that is no UTF-8": (b"U\x01\xff",),
    "list as a key": (b"}]Ns",),
    "odd items": (b"}(", ONE, b"u"),
    "append to a tuple": (b")", ONE, b"a"),
    "items of a list": (b"]", ONE, TWO, b"s"),
    "item of a set": (b"\x8f", ONE, b"a"),
    "list in a set": (_call("__builtin__", "set", b"](]e"),),
    "blocked": (b"cos\ngetcwd\n",),
    "unknown": (b"cargparse\nNamespace\n",),
    "not UTF-8": (b"c\xff\nx\n",),
    "call of a number": (ONE, b")R"),
    "call of a dtype": (b"ctorch\nfloat32\n)R",),
    "state of a list": (b"]}b",),
    "state that is no dictionary": (EMPTY_ODICT, b"Nb"),
    "bytes of another script": (_call("_codecs", "encode", _text("€"), _text("latin1")),),
    "bad device": (_call("torch", "device", _text("gpu")),),
    "bad layout": (_call("torch.serialization", "_get_layout", _text("x")),),
    "persistent id": (_text("storage"), b"\x85Q"),
    "integers that are no gradients": (
        _call(
            "torch._utils", "_rebuild_meta_tensor_no_storage",
            b"ctorch\nint64\n", b"(", ONE, b"t", b"(", ONE, b"t", b"\x88",
        ),
    ),
    "python 2's unicode": (_call("__builtin__", "unicode", _text("a")),),
    "empty bytes": (_call("__builtin__", "bytes"),),
}  # fmt: skip


def _torch_accepts(data):
    try:
        torchs.load(io.BytesIO(data), encoding="utf-8")
    except Exception:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    data = _pickle(*ACCEPTED[name])
    assert _torch_accepts(data)
    found = read_as_torch(data)
    assert found.accepted, found.refusals
    assert not found.refusals


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data = _pickle(*REFUSED[name])
    assert not _torch_accepts(data)
    found = read_as_torch(data)
    assert not found.accepted
    assert found.refusals
    assert found.refusals[0].reason


def test_all_names_are_told_at_once():
    data = _pickle(b"}(", _text("a"), b"cmine\nNet\n)R", _text("b"), b"cyours\nNet\n)\x81u")
    names = [(refusal.name, refusal.by_name) for refusal in read_as_torch(data).refusals]
    assert names == [("mine.Net", True), ("yours.Net", True)]


def test_items_of_an_object_are_no_matter_of_names():
    data = _pickle(_call("collections", "defaultdict"), ONE, TWO, b"s")
    assert [refusal.by_name for refusal in read_as_torch(data).refusals] == [True, False]


def test_a_cut_pickle_is_damage():
    data = pickle.dumps({"a": [1, 2, 3]}, 2)
    for end in range(len(data)):
        found = read_as_torch(data[:end])
        assert not found.accepted
        assert found.damaged


def test_a_tuple_that_takes_forever_to_hash():
    doubled = b")" + b"q\x00h\x00\x86" * 60
    assert not read_as_torch(_pickle(b"}", doubled, b"Ns")).accepted


def test_copies_are_bounded():
    many = b"](" + ONE * 20_000 + b"eq\x00"
    again = b"c__builtin__\nset\n(h\x00tR" * 2000
    found = read_as_torch(_pickle(many, b"](", again, b"e"))
    assert not found.accepted
    assert "too often" in found.refusals[0].reason


def test_nesting_as_deep_as_the_pickle_is_followed():
    assert read_as_torch(_pickle(b"]" * 100_000, b"a" * 99_999)).accepted
