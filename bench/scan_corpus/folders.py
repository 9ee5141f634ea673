"""Hostile folders of Hugging Face models, and ONNX files that reach outside of themselves."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.archives import Entry, archive, torch_zip
from bench.scan_corpus.assembling import PROTO_2, put, shell, whole
from bench.scan_corpus.sample import CANARY, RUNS, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_EVIL: Final = whole(shell(), proto=PROTO_2)
_CODE: Final = f"print('{CANARY}')\n\n\nclass Model:\n    pass\n"
_HEADER: Final = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
_SAFETENSORS: Final = len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(4)
_REMOTE: Final = ("PKL205",)


def _folder(**files: Any) -> Callable[[Path], None]:
    """Return a writer of a folder of these files."""

    def write(path: Path) -> None:
        path.mkdir(parents=True)
        for name, content in files.items():
            place = path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                place.write_bytes(content)
            elif isinstance(content, str):
                place.write_text(content, encoding="utf-8")
            else:
                place.write_text(json.dumps(content), encoding="utf-8")

    return write


def _auto_map(where: str) -> dict[str, Any]:
    return {"model_type": "own", "auto_map": {"AutoModel": where, "AutoConfig": where}}


def _hugging_face() -> Iterator[tuple[str, str, dict[str, Any], tuple[str, ...]]]:
    weights = {"model.safetensors": _SAFETENSORS}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    yield (
        "auto-map-local",
        "Transformers documentation",
        {"config.json": _auto_map("modeling.Model"), "modeling.py": _CODE, **weights},
        _REMOTE,
    )
    yield (
        "auto-map-other-repository",
        "Transformers documentation",
        {"config.json": _auto_map("someone/else--modeling.Model"), **weights},
        _REMOTE,
    )
    yield (
        "auto-map-tokenizer",
        "Transformers documentation",
        {
            "config.json": config,
            "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["tokenization.Model", None]}},
            "tokenization.py": _CODE,
            **weights,
        },
        _REMOTE,
    )
    yield (
        "auto-map-processor",
        "own",
        {
            "config.json": config,
            "preprocessor_config.json": {"auto_map": {"AutoProcessor": "processing.Model"}},
            "processing.py": _CODE,
            **weights,
        },
        _REMOTE,
    )
    yield (
        "auto-map-nested",
        "own",
        {
            "config.json": {**config, "vision_config": _auto_map("vision.Model")},
            "vision.py": _CODE,
            **weights,
        },
        _REMOTE,
    )
    yield (
        "custom-generate",
        "own",
        {"config.json": config, "custom_generate/generate.py": _CODE, **weights},
        _REMOTE,
    )
    yield (
        "attention-from-repository",
        "CVE-2026-4372",
        {"config.json": {**config, "_attn_implementation_internal": "someone/kernel"}, **weights},
        _REMOTE,
    )
    yield (
        "diffusers-custom-pipeline",
        "Diffusers documentation",
        {
            "model_index.json": {"_class_name": ["pipeline", "Model"], "unet": ["unet", "Model"]},
            "pipeline.py": _CODE,
            "unet/unet.py": _CODE,
        },
        _REMOTE,
    )
    yield (
        "sentence-transformers-module",
        "Sentence Transformers documentation",
        {
            "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "custom_st.Model"}],
            "custom_st.py": _CODE,
            "config.json": config,
            **weights,
        },
        _REMOTE,
    )
    yield (
        "hubconf",
        "torch.hub documentation",
        {"hubconf.py": _CODE, "weights.pth": torch_zip(whole(put({"a": 1})))},
        _REMOTE,
    )
    yield (
        "pickle-beside-safetensors",
        "own",
        {"config.json": config, "pytorch_model.bin": torch_zip(_EVIL), **weights},
        RUNS,
    )
    yield (
        "training-arguments",
        "own",
        {"config.json": config, "training_args.bin": torch_zip(_EVIL), **weights},
        RUNS,
    )
    yield (
        "optimizer-state",
        "own",
        {"config.json": config, "checkpoint-1/optimizer.pt": torch_zip(_EVIL), **weights},
        RUNS,
    )
    yield (
        "rng-state",
        "own",
        {"config.json": config, "rng_state_0.pth": torch_zip(_EVIL), **weights},
        RUNS,
    )
    yield (
        "hidden-folder",
        "own",
        {"config.json": config, ".cache/model.pkl": _EVIL, **weights},
        RUNS,
    )
    yield (
        "renamed-to-model-card",
        "own",
        {"config.json": config, "README.md": _EVIL, **weights},
        RUNS,
    )
    yield (
        "index-outside",
        "CWE-22",
        {
            "config.json": config,
            "pytorch_model.bin.index.json": {
                "metadata": {},
                "weight_map": {"w": "../../outside.bin"},
            },
            **weights,
        },
        ("PKL203", "FIL103", "FIL114", "FIL105", "FIL117"),
    )


def _field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return bytes(_varint(number << 3 | 2)) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def onnx(location: str | None, *, offset: int | None = None) -> bytes:
    """A minimal ONNX model with one initializer, kept in another file where `location` says so."""
    node = _field(1, b"w") + _field(2, b"y") + _field(4, b"Identity")
    return _model(_field(1, node) + _field(2, b"graph") + _field(5, _tensor(location, offset)))


def _tensor(location: str | None, offset: int | None = None) -> bytes:
    tensor = _field(1, 2) + _field(2, 1) + _field(8, b"w")
    if location is None:
        tensor += _field(9, bytes(8))
    else:
        entries = [("location", location)]
        if offset is not None:
            entries.append(("offset", str(offset)))
        for key, value in entries:
            tensor += _field(13, _field(1, key.encode()) + _field(2, value.encode()))
        tensor += _field(14, 1)
    return tensor


def _subgraph() -> bytes:
    """The weights of a branch of an `If` lie outside."""
    inner = _field(2, b"then") + _field(5, _tensor("../../../../etc/hostname"))
    branch = _field(1, b"then_branch") + _field(6, inner) + _field(20, 5)
    node = _field(1, b"c") + _field(2, b"y") + _field(4, b"If") + _field(5, branch)
    return _model(_field(1, node) + _field(2, b"graph"))


def _constant() -> bytes:
    """A constant of the graph lies outside."""
    value = _field(1, b"value") + _field(5, _tensor("/etc/hostname")) + _field(20, 4)
    node = _field(2, b"y") + _field(4, b"Constant") + _field(5, value)
    return _model(_field(1, node) + _field(2, b"graph"))


def _model(graph: bytes) -> bytes:
    return _field(1, 8) + _field(2, b"corpus") + _field(7, graph) + _field(8, _field(2, 17))


#: A template that walks from a string to all of Python, and only reads the working directory.
_TEMPLATE: Final = "{{ ''.__class__.__mro__[1].__subclasses__() }}"


def gguf(template: str) -> bytes:
    """The head of a GGUF file with a chat template, without tensors."""

    def text(value: str) -> bytes:
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    values = {"general.architecture": "llama", "tokenizer.chat_template": template}
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    for key, value in values.items():
        out += text(key) + struct.pack("<I", 8) + text(value)
    return out + bytes(-len(out) % 32)


def _keras(layer: str) -> bytes:
    """A `.keras` archive with one layer."""
    config: dict[str, Any] = {
        "module": "keras", "class_name": "Sequential",
        "config": {"layers": [{"module": "keras.layers", "class_name": layer, "config": {}}]},
    }  # fmt: skip
    if layer == "Lambda":
        function = {"class_name": "__lambda__", "config": {"code": "4wAAAAA=", "defaults": None}}
        config["config"]["layers"][0]["config"] = {"function": function}
    return archive([
        Entry(name="metadata.json", data=b'{"keras_version": "3.5.0"}'),
        Entry(name="config.json", data=json.dumps(config).encode()),
    ])  # fmt: skip


def _link(target: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir(parents=True)
        (path / "model.onnx").write_bytes(onnx("weights.bin"))
        (path / "weights.bin").symlink_to(target)

    return write


def samples() -> Iterator[Sample]:
    """One folder or file for each."""
    for name, source, files, expect in _hugging_face():
        yield Sample(
            name=f"folder-{name}", kind="folders: Hugging Face", source=source,
            write=_folder(**files), expect=expect,
        )  # fmt: skip
    for name, location in (
        ("absolute", "/etc/hostname"), ("parent", "../../../../etc/hostname"),
        ("hidden-parent", "weights/../../../etc/hostname"), ("backslash", "..\\..\\hostname"),
        ("drive", "C:\\Windows\\win.ini"), ("url", "http://127.0.0.1:9/weights.bin"),
    ):  # fmt: skip
        yield Sample(
            name=f"onnx-{name}.onnx", kind="ONNX external data",
            source="CVE-2022-25882, CVE-2024-5187", write=write_bytes(onnx(location)),
            expect=("PKL203",),
        )  # fmt: skip
    yield Sample(
        name="onnx-link", kind="ONNX external data", source="GHSA-q56x-g2fj-4rj6",
        write=_link("/etc/hostname"), expect=("PKL203",),
    )  # fmt: skip
    yield Sample(
        name="gguf-template.gguf", kind="templates", source="CVE-2024-34359",
        write=write_bytes(gguf(_TEMPLATE)), expect=("PKL205",),
    )  # fmt: skip
    yield Sample(
        name="folder-chat-template", kind="templates", source="CVE-2024-34359",
        write=_folder(**{"tokenizer_config.json": {"chat_template": _TEMPLATE}}),
        expect=("PKL205",),
    )  # fmt: skip
    for name, files in (
        ("jinja", {"chat_template.jinja": _TEMPLATE}),
        ("list", {"tokenizer_config.json": {"chat_template": [
            {"name": "default", "template": "{{ messages }}"},
            {"name": "tool_use", "template": _TEMPLATE}]}}),
        ("json", {"chat_template.json": {"chat_template": _TEMPLATE}}),
        ("by-attr", {"chat_template.jinja":
                     "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}"}),
    ):  # fmt: skip
        yield Sample(
            name=f"folder-chat-template-{name}", kind="templates", source="CVE-2024-34359",
            write=_folder(**files), expect=("PKL205",),
        )  # fmt: skip
    for name, data in (("subgraph", _subgraph()), ("constant", _constant())):
        yield Sample(
            name=f"onnx-{name}.onnx", kind="ONNX external data", source="own",
            write=write_bytes(data), expect=("PKL203",),
        )  # fmt: skip
    yield Sample(
        name="keras-lambda.keras", kind="folders: Keras", source="CVE-2024-3660",
        write=write_bytes(_keras("Lambda")), expect=("PKL205", "PKL201", "PKL202"),
    )  # fmt: skip
    yield Sample(
        name="folder-deep", kind="folders: depth", source="own",
        write=_folder(**{"/".join("abcdefgh") + "/model.bin": _EVIL}),
        expect=RUNS,
    )  # fmt: skip
