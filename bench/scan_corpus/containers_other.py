"""Hostile NumPy, joblib and compressed files, files under other names, 7z."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import struct
import zlib
from typing import TYPE_CHECKING, Final

from bench.scan_corpus.archives import Entry, archive, torch_zip
from bench.scan_corpus.assembling import (
    PROTO_2,
    STOP,
    Code,
    named,
    of,
    plain,
    put,
    shell,
    text,
    whole,
)
from bench.scan_corpus.sample import CANARY, RUNS, TRICK, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVIL: Final = whole(shell())
#: Where the package that unpacks it is not there, that is what is told.
_PACKED: Final = ("PKL203", "PKL201")
_MANY: Final = "Liu et al. 2025 (arXiv 2508.19774)"


def npy(data: bytes, *, descr: str = "'|O'", version: int = 1, shape: str = "(1,)") -> bytes:
    """An `.npy` file of objects around this pickle."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = 2 if version == 1 else 4
    header += b" " * (-(10 + size - 2 + len(header) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def _array() -> bytes:
    """A pickle of an object array with a payload in it, as `np.save` writes it."""
    import numpy as np

    out = io.BytesIO()
    value = np.array(["a", None], dtype=object)
    np.save(out, value)
    saved = out.getvalue()
    start = saved.index(b"\n") + 1
    return saved[:start] + saved[start:-1] + shell().opcodes + b"0" + STOP


def joblib_file(*, objects: bool = False, behind: bool = True) -> bytes:
    """A joblib file: an array whose bytes lie in the middle of the pickle, and a payload.

    Args:
        objects: The array is of objects: a pickle of its own lies there.
        behind: The payload stands behind the array.
    """
    dtype = of("numpy", "dtype")("O8" if objects else "f8", False, True)
    order = ("|", None, None, None, -1, -1, 63) if objects else ("<", None, None, None, -1, -1, 0)
    dtype = Code(dtype.opcodes + put((3, *order)) + b"b")
    state = {
        "subclass": of("numpy", "ndarray"), "shape": (2,), "order": "C", "dtype": dtype,
        "allow_mmap": not objects, "numpy_array_alignment_bytes": None if objects else 16,
    }  # fmt: skip
    wrapper = named("joblib.numpy_pickle", "NumpyArrayWrapper") + b")\x81" + put(state) + b"b"
    head = b"\x80\x04}" + text("w") + wrapper
    if objects:
        raw = _EVIL
        return head + raw + b"s."
    start = len(head) + 1
    padding = -start % 16
    raw = bytes([padding]) + b"\xff" * padding + struct.pack("<2d", 1.0, 2.0)
    tail = b"s" + text("p") + (shell().opcodes if behind else b"N") + b"s."
    return head + raw + tail


def _zstd(data: bytes) -> bytes:
    """A Zstandard frame of raw blocks."""
    out = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
    return out + struct.pack("<I", len(data) << 3 | 1)[:3] + data


def _lz4(data: bytes) -> bytes:
    """An LZ4 frame of stored blocks, without checksums."""
    import xxhash

    flags = b"\x60\x40"
    check = bytes([xxhash.xxh32(flags).intdigest() >> 8 & 0xFF])
    block = struct.pack("<I", len(data) | 0x80000000) + data
    return b"\x04\x22\x4d\x18" + flags + check + block + struct.pack("<I", 0)


def seven_zip(name: str, data: bytes) -> bytes:
    """A 7z archive with one stored member."""
    encoded = name.encode("utf-16-le") + b"\0\0"
    size = bytes([0x80 | len(data) >> 8, len(data) & 0xFF])
    header = b"\x01\x04\x06\x00\x01\x09" + size + b"\x00"
    header += b"\x07\x0b\x01\x00\x01\x01\x00\x0c" + size + b"\x00"
    header += b"\x08\x0a\x01" + struct.pack("<I", zlib.crc32(data)) + b"\x00\x00"
    header += b"\x05\x01\x11" + bytes([len(encoded) + 1]) + b"\x00" + encoded + b"\x00\x00"
    start = struct.pack("<QQI", len(data), len(header), zlib.crc32(header))
    front = b"7z\xbc\xaf\x27\x1c\x00\x04" + struct.pack("<I", zlib.crc32(start)) + start
    return front + data + header


def stable_baselines(serialized: bytes) -> bytes:
    """A Stable-Baselines3 archive: its loader unpickles what stands in its JSON as base64."""
    function = {":type:": "function", ":serialized:": base64.b64encode(serialized).decode()}
    data = {"gamma": 0.99, "lr_schedule": function}
    return archive([
        Entry(name="data", data=json.dumps(data).encode(), method=8),
        Entry(name="policy.pth", data=torch_zip(plain({"a": 1}))),
        Entry(name="_stable_baselines3_version", data=b"2.3.0"),
    ])  # fmt: skip


def _bomb() -> bytes:
    """A gzip file of 300 MiB of zeros with a payload behind them."""
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head, tail = b"\x80\x04\x8e" + struct.pack("<Q", 300 << 20), b"0" + shell().opcodes + STOP
    front = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(tail) + packer.flush()
    crc = zlib.crc32(head)
    for _ in range(300):
        crc = zlib.crc32(zeros, crc)
    size = len(head) + (300 << 20) + len(tail)
    trailer = struct.pack("<II", zlib.crc32(tail, crc), size)
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + front + piece * 300 + end + trailer


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


# name, kind, source, bytes, loader, expected
_Row = tuple[str, str, str, bytes, str, tuple[str, ...]]


def _rows() -> Iterator[_Row]:
    yield ("object-array.npy", "NumPy", "picklescan dns_exfiltration", npy(_EVIL), "numpy", RUNS)
    yield ("object-array-behind.npy", "NumPy", "own", _array(), "numpy", RUNS)
    yield ("object-array-version-2.npy", "NumPy", "own", npy(_EVIL, version=2), "numpy", RUNS)
    yield ("object-array-version-3.npy", "NumPy", "own", npy(_EVIL, version=3), "numpy", RUNS)
    yield (
        "object-field.npy",
        "NumPy",
        "own",
        npy(_EVIL, descr="[('a', '<f4'), ('b', '|O')]"),
        "numpy",
        RUNS,
    )
    yield ("object-scalar.npy", "NumPy", "own", npy(_EVIL, shape="()"), "numpy", RUNS)
    yield ("pickle-as-npy.npy", "NumPy", _MANY, _EVIL, "numpy", RUNS)
    yield ("npy-as-bin.bin", "NumPy", "picklescan GHSA-jgw4-cr84-mqxg", npy(_EVIL), "numpy", RUNS)
    yield (
        "object-arrays.npz",
        "NumPy",
        "modelscan npz bypass",
        archive([Entry(name="a.npy", data=npy(_EVIL))]),
        "numpy",
        RUNS,
    )
    yield (
        "object-arrays-deflated.npz",
        "NumPy",
        "modelscan npz bypass",
        archive([Entry(name="a.npy", data=npy(_EVIL), method=8)]),
        "numpy",
        RUNS,
    )
    yield (
        "second-member.npz",
        "NumPy",
        "own",
        archive(
            [
                Entry(name="a.npy", data=npy(b"\0" * 4, descr="'<f4'")),
                Entry(name="b.npy", data=npy(_EVIL)),
            ]
        ),
        "numpy",
        RUNS,
    )
    yield (
        "member-without-suffix.npz",
        "NumPy",
        "own",
        archive([Entry(name="weights", data=npy(_EVIL))]),
        "numpy",
        RUNS,
    )
    yield (
        "pickle-member.npz",
        "NumPy",
        "own",
        archive([Entry(name="data.pkl", data=_EVIL)]),
        "",
        RUNS,
    )
    yield (
        "npz-as-pt.pt",
        "NumPy",
        "own",
        archive([Entry(name="a.npy", data=npy(_EVIL))]),
        "numpy",
        RUNS,
    )

    for name, packed in (
        ("gz", _gzip(_EVIL)), ("bz2", bz2.compress(_EVIL)), ("xz", lzma.compress(_EVIL)),
        ("lzma", lzma.compress(_EVIL, format=lzma.FORMAT_ALONE)),
    ):  # fmt: skip
        yield (f"compressed.pkl.{name}", "compressed", _MANY, packed, "compressed", RUNS)
    yield ("compressed.pkl.zst", "compressed", "own", _zstd(_EVIL), "", _PACKED)
    yield ("compressed.pkl.lz4", "compressed", "own", _lz4(_EVIL), "", _PACKED)
    yield (
        "two-members.pkl.gz",
        "compressed",
        "own",
        _gzip(_EVIL[:5]) + _gzip(_EVIL[5:]),
        "compressed",
        RUNS,
    )
    yield ("twice.pkl.gz.gz", "compressed", "own", _gzip(_gzip(_EVIL)), "", RUNS)
    yield ("torch-in-gz.pt.gz", "compressed", "own", _gzip(torch_zip(_EVIL)), "", RUNS)
    yield (
        "gz-in-zip.zip",
        "compressed",
        "modelscan #338",
        archive([Entry(name="model.pkl.gz", data=_gzip(_EVIL))]),
        "",
        RUNS,
    )
    yield ("bomb.pkl.gz", "bombs", "own", _bomb(), "", (*TRICK, "FIL107"))
    yield (
        "stored.7z",
        "7z",
        "ReversingLabs 2025 (nullifAI)",
        seven_zip("data.pkl", _EVIL),
        "",
        (*TRICK, "FIL118"),
    )
    yield (
        "renamed-7z.pt",
        "7z",
        "ReversingLabs 2025 (nullifAI)",
        seven_zip("data.pkl", _EVIL),
        "",
        (*TRICK, "FIL118"),
    )

    yield ("array-inside.joblib", "joblib", "aisbom #91", joblib_file(), "joblib", RUNS)
    yield (
        "object-array-inside.joblib",
        "joblib",
        "aisbom #91",
        joblib_file(objects=True),
        "joblib",
        RUNS,
    )
    yield ("plain.joblib", "joblib", "modelscan joblib bypass", _EVIL, "joblib", RUNS)
    yield (
        "array-inside.joblib.z",
        "joblib",
        "CVE-2024-34997",
        zlib.compress(joblib_file()),
        "joblib",
        RUNS,
    )
    yield (
        "array-inside.joblib.gz",
        "joblib",
        "CVE-2024-34997",
        _gzip(joblib_file()),
        "joblib",
        RUNS,
    )
    yield (
        "array-inside.joblib.xz",
        "joblib",
        "CVE-2024-34997",
        lzma.compress(joblib_file()),
        "joblib",
        RUNS,
    )
    old = (
        named("joblib.numpy_pickle_compat", "NDArrayWrapper")
        + put(("../../absent.npy", Code(named("numpy", "ndarray")), True))
        + b"R"
    )
    yield (
        "other-file.joblib",
        "joblib",
        "CVE-2024-34997",
        PROTO_2 + old + STOP,
        "",
        ("PKL201", "PKL202", "PKL203"),
    )

    yield ("stable-baselines.zip", "base64 in JSON", "own", stable_baselines(_EVIL), "", RUNS)
    for name in (
        "model.safetensors", "weights.json", "readme.txt", "picture.png", "model.gguf",
        "pytorch_model", "weights.npz", "model.onnx", "tokenizer.model", "data.bin",
    ):  # fmt: skip
        yield (f"renamed-{name}", "extensions", "picklescan CVE-2025-1889", _EVIL, "pickle", RUNS)
    yield (
        "renamed-torch.safetensors",
        "extensions",
        "picklescan CVE-2025-10155",
        torch_zip(_EVIL),
        "torch",
        RUNS,
    )
    yield (
        "renamed-torch.pkl",
        "extensions",
        "picklescan CVE-2025-10155",
        torch_zip(_EVIL),
        "torch",
        RUNS,
    )
    yield ("renamed-pickle.pt", "extensions", "picklescan CVE-2025-10155", _EVIL, "torch", RUNS)
    yield ("renamed-pickle.zip", "extensions", "picklescan CVE-2025-10155", _EVIL, "pickle", RUNS)
    yield (
        "text-pickle.md",
        "extensions",
        "own",
        b"V# A model card\n0cposix\nsystem\n(Vecho " + CANARY.encode() + b"\ntR.",
        "pickle",
        RUNS,
    )
    yield (
        "text-pickle.json",
        "extensions",
        "own",
        b"](lp0\n0cposix\nsystem\n(Vecho " + CANARY.encode() + b"\ntR.",
        "pickle",
        RUNS,
    )
    yield (
        "html-like.html",
        "extensions",
        "own",
        b"V<!doctype html>\n0cposix\nsystem\n(Vecho " + CANARY.encode() + b"\ntR.",
        "pickle",
        RUNS,
    )


def samples() -> Iterator[Sample]:
    """One file for each."""
    for name, kind, source, data, loader, expect in _rows():
        needs = {"numpy": "numpy", "joblib": "joblib", "torch": "torch"}.get(loader, "")
        yield Sample(
            name=f"other-{name}", kind=f"containers: {kind}", source=source,
            write=write_bytes(data), expect=expect, loader=loader, needs=needs,
        )  # fmt: skip
