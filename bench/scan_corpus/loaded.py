"""Pickles that only one loader comes to: joblib's, an agent's, torch's for what a pickle holds."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import tarfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

from bench.scan_corpus.assembling import PROTO_2, Code, named, of, put, shell, stacked, text, whole
from bench.scan_corpus.sample import CANARY, RUNS, SHELL, TRICK, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLD: Final = named("posix", "system") + b"(" + text(SHELL) + b"tR."
_LATE: Final = b"S'" + b"a" * 3000 + b"'\n0" + _OLD
_load: Final = of("torch.storage", "_load_from_bytes")
_wrapper: Final = of("joblib.numpy_pickle", "NumpyArrayWrapper")


def _dtype(kind: str, size: int, flags: int) -> Code:
    state = (3, "|", None, None, None, size, 1, flags)
    return Code(of("numpy", "dtype")(kind, False, True).opcodes + put(state) + b"b")


def _wrapped(dtype: Code, count: int, made: Code | None = None) -> bytes:
    """A pickle's start up to a wrapper of joblib's, behind which it reads raw elements."""
    fields = {"subclass": of("numpy", "ndarray"), "shape": (count,), "order": "C", "dtype": dtype}
    instance = _wrapper.opcodes + b")\x81" if made is None else made.opcodes
    return instance + put(fields | {"allow_mmap": False}) + b"b"


def _hidden(before: bytes) -> bytes:
    """A byte string to who does not begin in the middle of it."""
    inner = before + b"0" + _OLD
    return b"B" + struct.pack("<I", len(inner)) + inner + b"0."


def _other_size() -> bytes:
    return b"\x80\x04" + _wrapped(_dtype("V8", 16, 0), 1) + bytes(8) + _hidden(b"xxx")


def _holds_objects() -> bytes:
    inner = (
        stacked("posix", "system")[:-1].replace(b"posix", b"posix\x94") + b"\x9400h\x00h\x01\x93"
    )
    inner += put((SHELL,)) + b"R."
    stored = b"\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x9400"
    dtype = _dtype(f"V{len(inner)}", len(inner), 0x3F)
    return b"\x80\x04" + stored + _wrapped(dtype, 1) + inner + b"."


def _made_by_partial() -> bytes:
    made = of("functools", "partial")(of("copyreg", "__newobj__"), _wrapper)()
    return b"\x80\x04" + _wrapped(_dtype("u1", -1, 0), 8, made) + _hidden(b"xxx")


def _empty_blocks() -> bytes:
    data = whole(shell())
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(data) + packer.flush()
    checksum = struct.pack(">I", zlib.adler32(data))
    return b"x\x9c" + b"\0\0\0\xff\xff" * 400 + packed + checksum


def _tar_link() -> bytes:
    """torch's first format with its storages under another name, behind raw numbers."""
    record = PROTO_2 + put((1, "cpu", of("torch", "FloatStorage"))) + b"."
    storages = pickle.dumps(1, 2) + record + struct.pack("<q", 1) + b"\xff" * 4
    empty = pickle.dumps(0, 2)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        members = {"x": storages + whole(shell(), proto=PROTO_2), "tensors": empty, "pickle": empty}
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("storages")
        link.type, link.linkname = tarfile.LNKTYPE, "x"
        tar.addfile(link)
    return out.getvalue()


def _module_source() -> bytes:
    """A made-up class; torch writes the difference of its source into a file of its name."""
    members = {"dump_patches": 1, "__wrapped__": of("torch._utils", "_rebuild_tensor_v2")}
    made = of("enum", "Enum")("everybit-canary", members)
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    before = b"".join(pickle.dumps(part, 2) for part in parts)
    saved = PROTO_2 + put(("module", made, "a.py", "text")) + b"Q."
    return before + saved + pickle.dumps([], 2)


def _agent(data: bytes) -> bytes:
    kept = {":type:": "x", ":serialized:": base64.b64encode(data).decode()}
    return json.dumps({"policy_class": kept}).encode()


def _stepped_over() -> bytes:
    late = b"S'" + b"a" * 2_000_000 + b"'\n0" + _OLD
    return whole(Code(text("NumpyArrayWrapper") + b"0" + _load(late).opcodes))


def _compressed(member: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
        if "/" in member:
            archive.writestr(member.replace("data.pkl", "version"), "3\n")
    return out.getvalue()


def _array(descr: str) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}\n".encode()
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    return _compressed("a.npy", start + whole(shell()))


def _as_header() -> bytes:
    """A long text to an unpickler; by its first bytes, safetensors."""
    start = b"X" + struct.pack("<I", 2000) + b"\0\0\0{" + b"a" * 1996
    return _compressed("archive/data.pkl", start + b"0" + _OLD)


# name, data, loader, proof
_FILES: Final = (
    ("late-in-bytes.pkl", whole(_load(_LATE)), "pickle", CANARY),
    ("late-in-large-bytes.pkl", _stepped_over(), "pickle", CANARY),
    ("dtype-of-another-size.joblib", _other_size(), "joblib", CANARY),
    ("dtype-that-holds-objects.joblib", _holds_objects(), "joblib", CANARY),
    ("wrapper-by-partial.joblib", _made_by_partial(), "joblib", CANARY),
    ("empty-blocks.z", _empty_blocks(), "joblib", CANARY),
    ("tar-link.pt", _tar_link(), "torch", CANARY),
    ("source-of-a-made-up-class.pt", _module_source(), "torch", "everybit-canary.patch"),
    ("objects-by-a-list-of-dtypes.npz", _array("'i4,O'"), "numpy", CANARY),
    ("objects-by-an-escape.npz", _array("'\\x4f'"), "numpy", CANARY),
    ("safetensors-by-its-start.pt", _as_header(), "torch", CANARY),
    ("agent-of-protocol-0.json", _agent(_OLD), "", CANARY),
    ("agent-escaped.json", _agent(whole(shell())).replace(b'"gA', b'"\\u0067A'), "", CANARY),
)


def samples() -> Iterator[Sample]:
    """One file for each."""
    for name, data, loader, proof in _FILES:
        yield Sample(
            name=f"loaded-{name}",
            kind="one loader only",
            source="own",
            write=write_bytes(data),
            expect=TRICK if name.endswith(".joblib") else RUNS,
            loader=loader,
            proof=proof,
            needs="torch" if loader == "torch" or name.startswith("late") else "",
        )
