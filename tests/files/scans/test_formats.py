"""Formats that hold no pickle and still can make a loader run code or read other files."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import pytest

import everybit
from everybit.core.finding import Severity


def scan(tmp_path, name, data):
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data if isinstance(data, bytes) else data.encode())
    return everybit.scan(place)


def told(verdict):
    return [(f.rule, str(f.severity)) for f in verdict.findings]


def varint(number):
    out = bytearray()
    while True:
        number, byte = number >> 7, number & 0x7F
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx(*, location=None, domain="", operator="Relu", nested=False):
    tensor = field(1, 2) + field(2, 1) + field(8, "weight")
    if location is None:
        tensor += field(9, bytes(8))
    else:
        tensor += field(13, field(1, "location") + field(2, location)) + field(14, 1)
    node = field(1, "x") + field(2, "y") + field(4, operator) + field(7, domain)
    graph = field(1, node) + field(2, "main")
    if nested:
        inner = field(2, "branch") + field(5, tensor)
        graph = field(1, node + field(5, field(1, "then_branch") + field(6, inner))) + graph
    else:
        graph += field(5, tensor)
    return field(1, 8) + field(2, "test") + field(7, graph) + field(8, field(2, 17))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (None, []),
        ("weights.bin", []),
        ("sub/weights.bin", []),
        ("../../etc/passwd", [("PKL203", "error")]),
        ("/etc/passwd", [("PKL203", "error")]),
        ("C:\\x", [("PKL203", "error")]),
        ("file:///etc/passwd", [("PKL203", "error")]),
    ],
)
def test_onnx_external_data(tmp_path, location, expected, nested):
    assert told(scan(tmp_path, "m.onnx", onnx(location=location, nested=nested))) == expected


def test_onnx_external_data_through_a_link(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "model" / "w.bin").symlink_to(tmp_path / "secret")
    data = onnx(location="w.bin")
    assert told(scan(tmp_path, "model/m.onnx", data)) == [("PKL203", "error")]


def test_onnx_operators(tmp_path):
    assert told(scan(tmp_path, "m.onnx", onnx(domain="com.microsoft"))) == []
    assert told(scan(tmp_path, "m.onnx", onnx(domain="my.ops"))) == [("PKL205", "note")]
    python = onnx(domain="ai.onnx.contrib", operator="PyOp")
    assert told(scan(tmp_path, "m.onnx", python)) == [("PKL205", "warning")]


def test_onnx_that_is_cut_is_never_clean(tmp_path):
    data = onnx(location="w.bin")
    for size in set(range(1, len(data))) - {len(data) - 4}:  # there a whole field ends
        verdict = scan(tmp_path, "m.onnx", data[:size])
        assert verdict.exit_code(Severity.WARNING) != 0, size


def gguf(pairs, version=3):
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    out = b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs))
    for key, value in pairs.items():
        if isinstance(value, str):
            out += text(key) + struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            out += text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            out += text(key) + struct.pack("<II", 4, value)
    return out


GOOD = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}"
BAD = "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}"


def test_gguf_templates(tmp_path):
    pairs = {"general.architecture": "llama", "n": 7, "tokenizer.ggml.tokens": ["a", "__class__"]}
    verdict = scan(tmp_path, "m.gguf", gguf(pairs | {"tokenizer.chat_template": GOOD}))
    assert verdict.ok
    bad = scan(tmp_path, "m.gguf", gguf(pairs | {"tokenizer.chat_template.tool": BAD}))
    assert told(bad) == [("PKL205", "error")]
    data = gguf(pairs | {"tokenizer.chat_template": BAD})
    assert told(scan(tmp_path, "m.gguf", data[:-10])) == [("FIL107", "error")]
    assert told(scan(tmp_path, "m.gguf", data[:16] + b"\xff" * 8 + data[24:])) == [
        ("FIL107", "error")
    ]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (GOOD, []),
        (BAD, [("PKL205", "error")]),
        ("{{ ''|attr('\\x5f\\x5fclass') }}", [("PKL205", "warning")]),
        ("{{ lipsum.__globals__['os'].popen('id').read() }}", [("PKL205", "error")]),
        ("Explain __init__ and __class__ of Python. {{ messages }}", []),
        ("{# __class__ #}{{ messages }}", []),
    ],
)
def test_chat_templates(tmp_path, template, expected):
    assert told(scan(tmp_path, "chat_template.jinja", template)) == expected
    config = json.dumps({"chat_template": [{"name": "default", "template": template}]})
    assert told(scan(tmp_path, "tokenizer_config.json", config)) == expected


def keras_config(layer):
    layers = [{"module": "keras.layers", "class_name": "Dense", "config": {"name": "d"}}, layer]
    return {"module": "keras", "class_name": "Sequential", "config": {"layers": layers}}


PLAIN = {"module": "keras.layers", "class_name": "ReLU", "config": {"name": "r"}}
LAMBDA = {"class_name": "Lambda", "config": {"name": "l", "function": ["4wEAAAA", None, None]}}
OS = {"module": "os", "class_name": "function", "config": "system", "registered_name": "x"}
OWN = {"module": "mine.layers", "class_name": "Mine", "config": {}, "registered_name": "Mine"}


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (PLAIN, []),
        (LAMBDA, [("PKL205", "warning")]),
        (OS, [("PKL201", "error")]),
        (OWN, [("PKL205", "warning")]),
    ],
)
def test_keras_in_all_its_files(tmp_path, layer, expected):
    text = json.dumps(keras_config(layer))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("metadata.json", "{}")
        made.writestr("config.json", text)
    assert told(scan(tmp_path, "m.keras", archive.getvalue())) == expected
    hdf5 = b"\x89HDF\r\n\x1a\n" + bytes(3000) + text.encode() + bytes(5000)
    assert told(scan(tmp_path, "m.h5", hdf5)) == expected
    assert told(scan(tmp_path, "config.json", text)) == expected


def test_hdf5_without_a_config(tmp_path):
    data = b"\x89HDF\r\n\x1a\n" + b'{"class_name" of nothing' + bytes(9 << 20)
    assert scan(tmp_path, "m.h5", data).ok


def test_auto_map(tmp_path):
    folder = tmp_path / "hf"
    config = {"architectures": ["Mine"], "auto_map": {"AutoModel": "modeling_mine.Mine"}}
    (verdict,) = [scan(tmp_path, "hf/config.json", json.dumps(config))]
    assert told(verdict) == [("PKL205", "warning")]
    assert verdict.findings[0].evidence["missing"] == ["modeling_mine.py"]
    (folder / "modeling_mine.py").write_text("import os\n")
    (finding,) = everybit.scan(folder).findings
    assert finding.evidence["files"] == ["modeling_mine.py"]
    config["auto_map"] = {"AutoModel": "someone/other--modeling.Mine"}
    (finding,) = scan(tmp_path, "hf/config.json", json.dumps(config)).findings
    assert finding.evidence["repositories"] == ["someone/other"]
    escaped = json.dumps(config).replace("auto_map", "auto\\u005fmap")
    assert told(scan(tmp_path, "hf/config.json", escaped)) == [("PKL205", "warning")]
    plain = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    assert scan(tmp_path, "hf/config.json", json.dumps(plain)).ok


def test_yaml_tags(tmp_path):
    assert scan(tmp_path, "h.yaml", "lr: 1\nx: !!python/tuple [1, 2]\n").ok
    bad = "x: !!python/object/apply:os.system ['id']\n"
    assert told(scan(tmp_path, "h.yaml", bad)) == [("PKL205", "warning")]


def test_safetensors_and_what_lies_under_its_name(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    good = struct.pack("<Q", len(header)) + header + bytes(4)
    assert scan(tmp_path, "a.safetensors", good).ok
    assert told(scan(tmp_path, "a.safetensors", good[:-2])) == [("FIL104", "error")]
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    for data in (b"", pointer, b"<!DOCTYPE html><html>login</html>", b'{"error": "gated"}'):
        assert told(scan(tmp_path, "a.safetensors", data)) == [("FIL118", "error")]


@pytest.mark.parametrize("mark", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x01\x00"])
def test_what_nothing_reads_is_never_clean(tmp_path, mark):
    verdict = scan(tmp_path, "m.bin", mark + bytes(100))
    assert told(verdict) == [("PKL203", "warning")]
    assert [item.promised for item in verdict.coverage.skipped] == [True]


def test_other_files_are_clean_only_in_folders(tmp_path):
    (tmp_path / "f").mkdir()
    assert scan(tmp_path, "f/image.png", b"\x89PNG\r\n\x1a\n" + bytes(20)).exit_code() == 3
    assert everybit.scan(tmp_path / "f").ok
    (tmp_path / "f" / "model.pt").write_bytes(b"\xfe\xfd" * 50)
    assert everybit.scan(tmp_path / "f").exit_code() == 3
