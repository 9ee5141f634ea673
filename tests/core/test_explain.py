"""Error messages of loaders, drawn from them here or quoted from other releases, and explained."""

from __future__ import annotations

import argparse
import json
import pickle
import re
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from everybit.core.explain import explain_error
from everybit.core.messages import MESSAGES
from everybit.core.rule import rule_ids

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"
PAGE = b"<!DOCTYPE html><html><head><title>Login</title></head></html>"


class Own:
    """A class that no loader allows."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    torch.manual_seed(0)
    state = {"a.weight": torch.randn(300, 100), "b": torch.randn(50000)}
    torch.save(state, folder / "x.pt")
    torch.save(state, folder / "old.pt", _use_new_zipfile_serialization=False)
    save_file(state, folder / "x.safetensors")
    return folder


def _drawn(path, data, load, **options):
    path.write_bytes(data)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        load(path, **options)
    return caught.value


def _check(error, path, *rules):
    explanation = explain_error(error)
    assert explanation is not None, repr(error)
    assert set(rules) & set(explanation.rules), (repr(error), explanation)
    assert str(path) in str(explanation) or "fetch" in explanation.todo.lower()
    _never_advises(explanation)
    return explanation


def _never_advises(explanation):
    text = str(explanation)
    assert not re.search(r"weights_only\s*=\s*False|strict=False\W+(?:to|and) ignore", text)
    assert "{" not in text.replace("{}", "")


@pytest.mark.parametrize("cut", [1, 10, 100, 1024, 9000, 20000, 48000, 97000, -30, -3])
def test_cut_archives(whole, tmp_path, cut):
    data = (whole / "x.pt").read_bytes()[:cut]
    error = _drawn(tmp_path / "cut.pt", data, torch.load)
    _check(error, tmp_path / "cut.pt", "FIL104", "FIL118")


@pytest.mark.parametrize("cut", [5, 30, 100, 400, 1000, -50])
@pytest.mark.parametrize("weights_only", [True, False])
def test_cut_files_of_the_old_format(whole, tmp_path, cut, weights_only):
    data = (whole / "old.pt").read_bytes()[:cut]
    error = _drawn(tmp_path / "cut.pt", data, torch.load, weights_only=weights_only)
    _check(error, tmp_path / "cut.pt", "FIL104", "FIL107")


@pytest.mark.parametrize(
    ("data", "rules", "words"),
    [
        (b"", ("FIL118",), "empty"),
        (POINTER, ("FIL118",), "git-LFS pointer"),
        (PAGE, ("FIL118",), "web page"),
        (b'{"metadata": {}}', ("FIL118",), "JSON"),
        (bytes(5000), ("FIL118", "FIL105"), "zeros"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_no_model(tmp_path, data, rules, words, weights_only):
    error = _drawn(tmp_path / "model.bin", data, torch.load, weights_only=weights_only)
    assert words in _check(error, tmp_path / "model.bin", *rules).what


@pytest.mark.parametrize("what", [Own(), argparse.Namespace(a=1), torch.nn.Linear(2, 2)])
def test_what_weights_only_refuses(tmp_path, what):
    path = tmp_path / "model.pt"
    torch.save({"x": what}, path)
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(path)
    explanation = _check(caught.value, path, "PKL204")
    assert f"{type(what).__module__}.{type(what).__qualname__}" in explanation.what
    assert "not shown to be damaged" in explanation.what
    assert f"`everybit.load_into(model, {path})`" in explanation.todo


def _raised(path):
    try:
        torch.load(path)
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_every_bit_of_the_pickle_that_raises_is_explained(whole, tmp_path):
    data = (whole / "x.pt").read_bytes()
    start = data.find(b"\x80\x02")
    path = tmp_path / "flipped.pt"
    num_raised = num_named = 0
    for offset in range(start, start + 230):
        broken = bytearray(data)
        broken[offset] ^= 1
        path.write_bytes(broken)
        error = _raised(path)
        if error is not None:
            num_raised += 1
            explanation = explain_error(error)
            assert explanation is not None, (offset, repr(error))
            _never_advises(explanation)
            num_named += bool({"FIL107", "FIL108", "FIL104", "FIL103"} & set(explanation.rules))
    assert num_raised > 150
    assert num_named / num_raised > 0.9


def test_damaged_headers_of_records(whole, tmp_path):
    data = bytearray((whole / "x.pt").read_bytes())
    at = data.find(b"PK\x03\x04", 4)
    data[at] ^= 1
    error = _drawn(tmp_path / "x.pt", data, torch.load)
    assert "record " in _check(error, tmp_path / "x.pt", "FIL107").what


def _header(document, body):
    text = json.dumps(document).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda d, n, h: d[:4], ("FIL104",)),
        (lambda d, n, h: d[:50], ("FIL104",)),
        (lambda d, n, h: d[:-5], ("FIL104",)),
        (lambda d, n, h: d + b"xx", ("FIL107",)),
        (lambda d, n, h: struct.pack("<Q", 1 << 40) + d[8:], ("FIL107",)),
        (lambda d, n, h: struct.pack("<Q", len(d) + 9) + d[8:], ("FIL107",)),
        (lambda d, n, h: struct.pack("<Q", n - 5) + d[8:], ("FIL107",)),
        (lambda d, n, h: d[:8] + b"x" + d[9:], ("FIL107",)),
        (lambda d, n, h: d[:20] + b"\xff" + d[21:], ("FIL107",)),
        (lambda d, n, h: _header({**h, "b": {**h["b"], "data_offsets": [0, 8]}}, d[8 + n :]),
         ("FIL107",)),
        (lambda d, n, h: _header({**h, "b": {**h["b"], "shape": [3]}}, d[8 + n :]), ("FIL107",)),
        (lambda d, n, h: _header({**h, "b": {**h["b"], "dtype": "F99"}}, d[8 + n :]), ("FIL107",)),
        (lambda d, n, h: POINTER, ("FIL118",)),
        (lambda d, n, h: PAGE, ("FIL118",)),
        (lambda d, n, h: bytes(100), ("FIL107",)),
    ],
)  # fmt: skip
def test_safetensors(whole, tmp_path, change, rules):
    data = (whole / "x.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    broken = change(data, length, json.loads(data[8 : 8 + length]))
    _check(_drawn(tmp_path / "x.safetensors", broken, load_file), "x.safetensors", *rules)


def test_keys_shapes_and_groups():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    state = model.state_dict()
    cases = [
        ({f"module.{key}": value for key, value in state.items()}, "prefix"),
        ({**state, "0.weight": torch.zeros(5, 4)}, "0.weight has another shape"),
    ]
    for given, words in cases:
        with pytest.raises(RuntimeError) as caught:
            model.load_state_dict(given)
        explanation = explain_error(caught.value, path="x.pt")
        assert explanation.rules == ("FIL116",)
        assert words in explanation.what
        assert "x.pt" in explanation.todo
    one = torch.optim.Adam(model.parameters())
    other = torch.optim.Adam([model[0].weight])
    with pytest.raises(ValueError, match="parameter group") as caught:
        one.load_state_dict(other.state_dict())
    assert explain_error(caught.value).rules == ("FIL115",)


#: From other releases, as people paste them.
QUOTED = {
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    : "FIL104",
    "RuntimeError: PytorchStreamReader failed reading file data/3: file read failed": "FIL107",
    "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 64 vs 0": "FIL104",
    "RuntimeError: [enforce fail at inline_container.cc:783] . PytorchStreamWriter failed writing "
    "file data/5: file write failed": "FIL104",
    "RuntimeError: Invalid magic number; corrupt file?": "FIL107",
    "RuntimeError: storage has wrong byte size: expected 40 got 20": "FIL107",
    "RuntimeError: storage has wrong size: expected -4611686018427387904 got 64": "FIL107",
    "EOFError: Ran out of input": "FIL104",
    "EOFError": "FIL118",
    "OSError: [Errno 22] Invalid argument": "FIL104",
    "_pickle.UnpicklingError: pickle data was truncated": "FIL104",
    "_pickle.UnpicklingError: invalid load key, '\\x00'.": "FIL105",
    "_pickle.UnpicklingError: A load persistent id instruction was encountered, but no "
    "persistent_load function was specified.": "FIL118",
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge": "FIL107",
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooSmall": "FIL104",
    "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
    : "FIL104",
    "safetensors_rust.SafetensorError: Error while deserializing header: "
    "InvalidHeaderDeserialization": "FIL107",
    "safetensors_rust.SafetensorError: Error while deserializing header: InvalidOffset(\"w\")"
    : "FIL107",
    "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
    "is False.": "ENV901",
    "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() "
    "is 1.": "ENV901",
    "OSError: Unable to load weights from pytorch checkpoint file for 'm/pytorch_model.bin' at "
    "'m/pytorch_model.bin'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please "
    "set from_tf=True.": "FIL104",
    "OSError: You seem to have cloned a repository without having git-lfs installed.": "FIL118",
    "OSError: Error no file named pytorch_model.bin, model.safetensors found in directory m."
    : "FIL103",
    "Some weights of BertModel were not initialized from the model checkpoint at m and are newly "
    "initialized: ['bert.pooler.dense.bias']": "FIL116",
    "ValueError: Due to a serious vulnerability issue in `torch.load`, we now require users to "
    "upgrade torch to at least v2.6": "PKL204",
    "FileNotFoundError: [Errno 2] No such file or directory: 'ckpt/__1_0.distcp'": "FIL103",
    "AssertionError: metadata is None; global metadata read failed: pickle data was truncated"
    : "FIL103",
    "RuntimeError: Missing key in checkpoint state_dict: model.0.weight.": "FIL116",
    "ValueError: Size mismatch between saved torch.Size([4, 4]) and current: torch.Size([6, 4]) "
    "for m.0.weight": "FIL116",
    "RuntimeError: unexpected EOF, expected 7302 more bytes. The file might be corrupted."
    : "FIL104",
    "zipfile.BadZipFile: File is not a zip file": "FIL104",
}  # fmt: skip


@pytest.mark.parametrize("text", QUOTED)
def test_messages_of_other_releases(text):
    explanation = explain_error(text)
    assert explanation is not None
    assert QUOTED[text] in explanation.rules
    _never_advises(explanation)
    framed = f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{text}'
    if text not in ("EOFError", "OSError: [Errno 22] Invalid argument"):
        assert explain_error(framed) == explanation
    loader = framed.replace(
        '"t.py", line 1, in <module>', '"torch/serialization.py", line 9, in load'
    )
    assert explain_error(loader).rules == explanation.rules


def test_a_damaged_letter_is_told_from_a_refusal():
    text = "WeightsUnpickler error: Unsupported global: GLOBAL torch.FmoatStorage was not allowed"
    assert explain_error(text).rules[0] == "FIL108"
    assert "damaged letter" in explain_error(text).what


@pytest.mark.parametrize(
    "error",
    [
        ValueError("too many values to unpack"),
        EOFError("EOF when reading a line"),
        EOFError(),
        OSError(22, "Invalid argument"),
        KeyError("storages"),
        RuntimeError("CUDA out of memory"),
        IndexError("list index out of range"),
        FileNotFoundError(2, "No such file or directory", "config.yaml"),
        UnicodeDecodeError("utf-8", b"\x86", 0, 1, "invalid start byte"),
    ],
)
def test_errors_of_the_programs_own_are_left_alone(error):
    assert explain_error(error) is None


def test_an_error_while_saving_is_no_damage(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError)) as caught:
        torch.save({"x": lambda: 0}, tmp_path / "x.pt")
    assert explain_error(caught.value) is None


def test_an_error_of_a_callers_own_far_above_a_loader_is_left_alone(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")

    def program():
        torch.load(tmp_path / "x.pt")
        raise IndexError("list index out of range")

    with pytest.raises(IndexError) as caught:
        program()
    assert explain_error(caught.value) is None


def test_causes_count_and_odd_errors_harm_nothing(tmp_path):
    class OddError(Exception):
        def __str__(self):
            raise ValueError("no text")

    assert explain_error(OddError()) is None
    error = OSError("cannot load")
    error.__cause__ = pickle.UnpicklingError("invalid load key, 'v'.")
    assert explain_error(error).rules == ("FIL118",)


def test_the_table_is_sound():
    for message in MESSAGES:
        assert message.rules
        for key in message.rules:
            assert key in rule_ids(), key
        assert message.what.endswith(".")
        assert not message.todo.endswith(".")
        assert "weights_only=False" not in message.what + message.todo


def _load_with(monkeypatch, tmp_path, error, **options):
    """Return an error as it comes out of `torch.load` where unpickling raises it."""
    path = tmp_path / "x.pt"
    torch.save({"x": torch.ones(2)}, path)

    def raises(*_):
        raise error

    monkeypatch.setattr(torch._utils, "_rebuild_tensor_v2", raises)
    with pytest.raises(type(error)) as caught:
        torch.load(path, map_location=raises, **options)
    return caught.value


@pytest.mark.parametrize(
    ("error", "rules"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), None),
        (RuntimeError("don't know how to restore data location of torch.storage.UntypedStorage "
                      "(tagged with hpu)"), ("ENV901",)),
        (AttributeError("Can't get attribute 'Net' on <module '__main__'>"), ("PKL204",)),
        (ModuleNotFoundError("No module named 'models'"), ("PKL204",)),
    ],
)  # fmt: skip
def test_other_errors_in_a_load_are_not_called_damage(monkeypatch, tmp_path, error, rules):
    error = _load_with(monkeypatch, tmp_path, error, weights_only=False)
    explanation = explain_error(error)
    assert (explanation.rules if explanation else None) == rules
