"""Payloads that lie past a bound, or in a stream or member that is packed in an unusual way."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zlib
from typing import TYPE_CHECKING, Final

from bench.scan_corpus.archives import Entry, archive, torch_entries
from bench.scan_corpus.assembling import PROTO_4, STOP, of, plain, shell, whole
from bench.scan_corpus.containers_other import npy
from bench.scan_corpus.sample import CANARY, RUNS, TRICK, UNKNOWN, Sample, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALL: Final = shell().opcodes
_EVIL: Final = whole(shell())

# name, kind, source, bytes, loader, proof, expected
_Row = tuple[str, str, str, bytes, str, str, tuple[str, ...]]


def _bounds() -> Iterator[_Row]:
    many = b"N0" * 3_000_000
    yield (
        "behind-six-million.pkl",
        "bounds",
        "own",
        PROTO_4 + many + _CALL + STOP,
        "pickle",
        CANARY,
        TRICK,
    )
    nested = _EVIL
    for _ in range(30):
        nested = whole(of("pickle", "loads")(nested))
    yield ("nested-thirty.pkl", "bounds", "own", nested, "pickle", CANARY, RUNS)
    entries = [Entry(name=f"archive/data/{index}", data=b"x") for index in range(20_000)]
    yield (
        "twenty-thousand-members.pt",
        "bounds",
        "own",
        archive([*entries, *torch_entries(_EVIL)]),
        "",
        CANARY,
        (*RUNS, "PKL203"),
    )
    yield (
        "hundred-pickles.pkl",
        "bounds",
        "own",
        plain({"a": 1}) * 5000 + _EVIL,
        "pickles",
        CANARY,
        (*RUNS, "PKL203"),
    )
    yield (
        "wide-memo.pkl",
        "bounds",
        "own",
        PROTO_4 + b"Nr\xff\xff\xff\x7f0" + _CALL + STOP,
        "",
        CANARY,
        RUNS,
    )


def _bzip2_npz(method: int, packed: bytes) -> bytes:
    data = npy(_EVIL)
    entry = Entry(name="a.npy", data=packed, told_method=method, local_method=method,
                  crc=zlib.crc32(data), told_size=len(data), local_size=len(data))  # fmt: skip
    out = bytearray(archive([entry]))
    at = out.rfind(b"PK\x01\x02")
    out[at + 20 : at + 24] = struct.pack("<I", len(packed))
    return bytes(out)


def _lzma_member(data: bytes) -> bytes:
    packed = lzma.compress(data, format=lzma.FORMAT_ALONE)
    # Of a ZIP: a version, the size of the properties, these, and the stream without its size.
    return b"\x09\x04\x05\x00" + packed[:5] + packed[13:]


def _packings() -> Iterator[_Row]:
    data = npy(_EVIL)
    yield (
        "bzip2-member.npz",
        "packings",
        "own",
        _bzip2_npz(12, bz2.compress(data)),
        "numpy",
        CANARY,
        RUNS,
    )
    yield (
        "lzma-member.npz",
        "packings",
        "own",
        _bzip2_npz(14, _lzma_member(data)),
        "numpy",
        CANARY,
        RUNS,
    )
    packed = gzip.compress(_EVIL + bytes(100_000), mtime=0)
    yield (
        "wrong-crc.pkl.gz",
        "packings",
        "own",
        packed[:-8] + b"abcd" + packed[-4:],
        "compressed",
        CANARY,
        RUNS,
    )
    random = bytes((index * 7919 >> 3) & 255 for index in range(200_000))
    cut = gzip.compress(_EVIL + random, mtime=0)
    yield ("cut.pkl.gz", "packings", "own", cut[: len(cut) * 3 // 4], "compressed", CANARY, RUNS)
    yield (
        "cut.pkl.xz",
        "packings",
        "own",
        lzma.compress(_EVIL + random)[:-20],
        "compressed",
        CANARY,
        RUNS,
    )
    yield (
        "cut.pkl.bz2",
        "packings",
        "own",
        bz2.compress(_EVIL * 3 + random)[:-20],
        "",
        CANARY,
        TRICK,
    )
    named_gz = io.BytesIO()
    with gzip.GzipFile("weights.safetensors", "wb", fileobj=named_gz, mtime=0) as file:
        file.write(_EVIL)
    yield ("named.pkl.gz", "packings", "own", named_gz.getvalue(), "compressed", CANARY, RUNS)
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as made:
        info = tarfile.TarInfo("model.pkl")
        info.size = len(_EVIL)
        made.addfile(info, io.BytesIO(_EVIL))
    yield ("model.tar.gz", "packings", "own", tarred.getvalue(), "", CANARY, RUNS)
    body = zlib.compress(_EVIL)
    yield (
        "old-zfile.joblib",
        "packings",
        "CVE-2024-34997",
        b"ZF" + hex(len(_EVIL)).encode().ljust(19) + body,
        "joblib",
        CANARY,
        RUNS,
    )
    head = plain({"a": 1})[:-1] + b"0"
    yield (
        "unknown-first.bin",
        "packings",
        "own",
        head + of("victim.models", "Net")().opcodes + b"0" + _CALL + STOP,
        "",
        CANARY,
        (*RUNS, *UNKNOWN),
    )


def samples() -> Iterator[Sample]:
    """One file for each row."""
    for table in (_bounds(), _packings()):
        for name, kind, source, data, loader, proof, expect in table:
            yield Sample(
                name=f"packing-{name}", kind=f"disguises: {kind}", source=source,
                write=write_bytes(data), expect=expect, loader=loader, proof=proof,
                needs=loader if loader in ("numpy", "joblib") else "",
            )  # fmt: skip
