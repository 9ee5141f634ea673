"""Pickles that look like something else, and known names that do harm."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from bench.scan_corpus.archives import torch_zip
from bench.scan_corpus.assembling import (
    PROTO_4,
    STOP,
    named,
    of,
    put,
    shell,
    stacked,
    text,
    whole,
)
from bench.scan_corpus.sample import (
    CANARY,
    MARKER,
    RUNS,
    SHELL,
    UNKNOWN,
    Sample,
    write_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CALL: Final = shell().opcodes
_EVIL: Final = whole(shell())
_system: Final = of("posix", "system")

# name, kind, source, bytes, loader, proof, expected
_Row = tuple[str, str, str, bytes, str, str, tuple[str, ...]]

#: Opcodes that a pickle may begin with, with their argument: each is taken off the stack again.
_FIRST: Final[tuple[tuple[str, bytes], ...]] = (
    ("mark", b"(1"), ("empty-tuple", b")0"), ("empty-list", b"]0"), ("empty-dict", b"}0"),
    ("empty-set", b"\x8f0"), ("none", b"N0"), ("true", b"\x880"), ("false", b"\x890"),
    ("binint1", b"K\x070"), ("binint2", b"M\x07\x070"), ("binint", b"J\x07\0\0\x070"),
    ("long1", b"\x8a\x01\x070"), ("long4", b"\x8b\x01\0\0\0\x070"), ("int", b"I7\n0"),
    ("long", b"L7L\n0"), ("float", b"F7.0\n0"), ("binfloat", b"G" + bytes(8) + b"0"),
    ("string", b"S'a'\n0"), ("unicode", b"Va\n0"), ("binstring", b"T\x01\0\0\0a0"),
    ("short-binstring", b"U\x01a0"), ("binbytes", b"B\x01\0\0\0a0"),
    ("short-binbytes", b"C\x01a0"), ("binbytes8", b"\x8e\x01" + bytes(7) + b"a0"),
    ("binunicode8", b"\x8d\x01" + bytes(7) + b"a0"), ("global", b"ccollections\nOrderedDict\n0"),
    ("frame", b"\x95" + struct.pack("<Q", 0)),
)  # fmt: skip


def _first() -> Iterator[_Row]:
    for name, opcodes in _FIRST:
        yield (
            f"first-{name}.bin",
            "first opcode",
            "own",
            opcodes + _CALL + STOP,
            "pickle",
            CANARY,
            RUNS,
        )


def _tar_polyglot() -> bytes:
    """A tar whose first header is a string of a pickle that goes on behind it."""
    header = bytearray(512)
    header[:5] = b"T\xfb\x01\0\0"  # a string of 507 bytes: the rest of the header
    header[100:108] = b"0000644\0"
    header[124:136] = b"00000001000\0"
    header[136:148] = b"00000000000\0"
    header[148:156] = b" " * 8
    header[156:157] = b"0"
    header[257:263] = b"ustar\0"
    header[148:156] = b"%06o\0 " % sum(header)
    content = (b"0" + _CALL + STOP).ljust(512, b"\0")
    return bytes(header) + content + bytes(1024)


def _safetensors_like() -> bytes:
    """Reads as a safetensors header of some length, and is a pickle."""
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    content = b"\0\0\0" + header
    return b"X" + struct.pack("<I", len(content)) + content + b"0" + _CALL + STOP + bytes(64)


def _magics() -> Iterator[_Row]:
    yield (
        "gguf-head.gguf",
        "other formats' heads",
        "own",
        b"GGUF\x03\0\0\0\x000" + _CALL + STOP,
        "pickle",
        CANARY,
        RUNS,
    )
    yield ("tar-head.tar", "other formats' heads", "own", _tar_polyglot(), "", CANARY, RUNS)
    yield (
        "safetensors-head.safetensors",
        "other formats' heads",
        "own",
        _safetensors_like(),
        "pickle",
        CANARY,
        RUNS,
    )
    yield (
        "json-like.json",
        "other formats' heads",
        "own",
        b'V{"model_type": "gpt2"}\n0' + _CALL + STOP,
        "pickle",
        CANARY,
        RUNS,
    )
    yield (
        "spanned.pt",
        "other formats' heads",
        "own",
        b"PK00" + torch_zip(_EVIL),
        "",
        CANARY,
        RUNS,
    )
    yield (
        "lfs-like.bin",
        "other formats' heads",
        "own",
        b"Vversion https://git-lfs.github.com/spec/v1\n0" + _CALL + STOP,
        "pickle",
        CANARY,
        RUNS,
    )
    yield (
        "zeros-behind.bin",
        "other formats' heads",
        "own",
        _EVIL + bytes(1 << 20),
        "pickle",
        CANARY,
        RUNS,
    )


#: A policy need not know these by name.
_UNKNOWN_METHODS: Final = (
    "array-tofile", "storage-from-file", "untyped-from-file", "argparse-file", "parser-file",
)  # fmt: skip


def _harmful(path: str, name: str, *arguments: Any) -> bytes:
    return whole(of(path, name, dotted=True)(*arguments))


def _methods() -> Iterator[_Row]:
    """Classes that are known to be safe, and methods of them that are not."""
    path = of("pathlib", "PosixPath")(MARKER)
    array = of("numpy", "zeros")(2)
    rows: tuple[tuple[str, bytes, str], ...] = (
        ("path-touch", _harmful("pathlib", "PosixPath.touch", path), MARKER),
        ("path-write", _harmful("pathlib", "Path.write_bytes", path, b"x"), MARKER),
        ("path-mkdir", whole(of("builtins", "getattr")(path, "mkdir")()), MARKER),
        ("path-iterdir", _harmful("pathlib", "Path.iterdir", of("pathlib", "PosixPath")(".")),
         "audit:pickle.find_class"),
        ("path-unlink", whole(of("builtins", "getattr")(path, "unlink")(True)), "audit:os.remove"),
        ("array-tofile", whole(of("builtins", "getattr")(array, "tofile")(MARKER)), MARKER),
        ("array-dump", _harmful("numpy", "ndarray.dump", array, MARKER), MARKER),
        ("storage-from-file", _harmful("torch", "FloatStorage.from_file", MARKER, True, 8), MARKER),
        ("untyped-from-file", _harmful("torch", "UntypedStorage.from_file", MARKER, True, 8),
         MARKER),
        ("argparse-file", whole(of("argparse", "FileType")("w")(MARKER)), MARKER),
        ("parser-file", _harmful("argparse", "open", MARKER, "w"), ""),
        ("partial-getattr", whole(of("functools", "partial")(
            of("builtins", "getattr"), of("builtins", "__import__")("os"))("system")(SHELL)),
         CANARY),
        ("methodcaller-getattribute", whole(of("operator", "methodcaller")(
            "__getattribute__", "system")(of("builtins", "__import__")("os"))(SHELL)), CANARY),
        ("type-with-setstate", PROTO_4 + of("builtins", "type")(
            "X", (), {"__setstate__": _system}).opcodes + b")\x81" + text(SHELL) + b"b.", CANARY),
        ("append-by-attribute", PROTO_4 + of("argparse", "Namespace")().opcodes
         + put({"append": _system}) + b"b" + text(SHELL) + b"a.", CANARY),
        ("add-by-attribute", PROTO_4 + of("argparse", "Namespace")().opcodes
         + put({"add": _system}) + b"b(" + text(SHELL) + b"\x90.", CANARY),
        ("environment-item", PROTO_4 + named("os", "environ") + text("EVERYBIT") + text("1")
         + b"s.", "audit:os.putenv"),
        ("path-item", PROTO_4 + named("sys", "path") + text(".") + b"a.",
         "audit:pickle.find_class"),
        ("reconstructor", whole(of("copyreg", "_reconstructor")(
            of("subprocess", "Popen"), of("subprocess", "Popen"), ["echo", CANARY])), ""),
        ("rebuild-parameter-state", PROTO_4 + of("torch._utils", "_set_obj_state")(
            of("argparse", "Namespace")(), {"x": _system(SHELL)}).opcodes + STOP, CANARY),
    )  # fmt: skip
    for name, data, proof in rows:
        surely = name not in _UNKNOWN_METHODS
        yield (
            f"known-{name}.pkl",
            "harm of known names",
            "own",
            data,
            "pickle" if proof else "",
            proof,
            RUNS if surely else UNKNOWN,
        )


def _settings() -> Iterator[_Row]:
    """No call at all: attributes and items of modules and classes are set."""
    rows: tuple[tuple[str, bytes], ...] = (
        ("module", stacked("torch", "serialization") + put({"MAGIC_NUMBER": 1}) + b"b"),
        ("module-dictionary", stacked("torch.serialization", "__dict__") + text("MAGIC_NUMBER")
         + put(1) + b"s"),
        ("class", stacked("torch.nn.modules.linear", "Linear")
         + put({"forward": of("builtins", "print")}) + b"b"),
        ("class-safe-value", stacked("argparse", "Namespace") + put({"__call__": None}) + b"b"),
        ("slots-state", stacked("torch.nn.modules.linear", "Linear") + b"N"
         + put({"forward": None}) + b"\x86b"),
        ("builtins", stacked("collections", "__builtins__") + text("everybit") + put(1) + b"s"),
        ("dispatch-table", named("copyreg", "dispatch_table") + named("builtins", "int")
         + named("builtins", "print") + b"s"),
        ("function", stacked("torch._utils", "_rebuild_tensor_v2")
         + put({"__wrapped__": 1}) + b"b"),
    )  # fmt: skip
    for name, opcodes in rows:
        yield (f"sets-{name}.pkl", "sets attributes without a call", "own",
               PROTO_4 + opcodes + STOP, "pickle", "audit:pickle.find_class",
               (*RUNS, "PKL202", "PKL203"))  # fmt: skip


def _write_links(path: Path) -> None:
    """A folder whose weights are a link to a file outside of it."""
    path.mkdir(parents=True)
    (path / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    (path / "pytorch_model.bin").symlink_to("/etc/hostname")


def samples() -> Iterator[Sample]:
    """One file or folder for each row."""
    for table in (_first(), _magics(), _methods(), _settings()):
        for name, kind, source, data, loader, proof, expect in table:
            needs = "torch" if b"torch" in data[:400] and loader == "pickle" else ""
            yield Sample(
                name=f"disguise-{name}", kind=f"disguises: {kind}", source=source,
                write=write_bytes(data), expect=expect, loader=loader, proof=proof, needs=needs,
            )  # fmt: skip
    yield Sample(
        name="disguise-link", kind="disguises: links", source="CWE-59", write=_write_links,
        expect=("PKL203",),
    )  # fmt: skip
