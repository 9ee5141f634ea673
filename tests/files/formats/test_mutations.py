"""Damaged and hostile bytes of every format: no foreign exception, no hang, bounded memory."""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from tests.files import makers
from tests.files.formats.dcp_maker import save_dcp
from tests.files.formats.tar_maker import save_tar
from tests.files.formats.test_tokens import llmc, megatron, nanogpt
from tests.files.test_hostile import mutate

from everybit.core.errors import EverybitError
from everybit.files import read_plain_values, read_tensor_bytes
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.model import read_model
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource

NUM_MUTANTS = 200
#: Of the processor, not of the clock: other tests run beside these.
SECONDS = 4


def legacy(folder):
    torch.save(makers.weights(), folder / "m.pt", _use_new_zipfile_serialization=False)
    return folder / "m.pt"


def small():
    return {"a": torch.randn(9, 4).t(), "n": 3, "s": [torch.ones(2)]}


def tar(folder):
    return save_tar(small(), folder / "m.pt")


def distcp(folder):
    return save_dcp(small(), folder)


def metadata(folder):
    save_dcp(small(), folder)
    return folder / ".metadata"


def bare_distcp(folder):
    path = distcp(folder)
    (folder / ".metadata").unlink()
    return path


def npy(folder):
    np.save(folder / "a.npy", np.arange(30.0).reshape(5, 6))
    return folder / "a.npy"


def records(folder):
    np.save(folder / "a.npy", np.zeros(4, dtype=[("a", "i4"), ("b", "f8", (2, 3)), ("c", "U3")]))
    return folder / "a.npy"


def npz(folder):
    np.savez(folder / "a.npz", x=np.arange(30.0), y=np.ones((2, 2), dtype="f2"))
    return folder / "a.npz"


def packed_npz(folder):
    np.savez_compressed(folder / "a.npz", x=np.arange(3000.0), y=np.ones((2, 2), dtype="f2"))
    return folder / "a.npz"


def index(folder):
    return megatron(folder)[1]


def megatron_data(folder):
    return megatron(folder)[0]


def llmc_file(folder):
    return llmc(folder / "a.bin")


def meta(folder):
    nanogpt(folder)
    return folder / "meta.pkl"


MAKERS = [
    legacy, tar, distcp, metadata, bare_distcp, npy, records, npz, packed_npz, index,
    megatron_data, llmc_file, meta,
]  # fmt: skip


def read_in_all_ways(path, turn=None):
    """Read a file in every way, or in the one whose turn it is after the check itself."""
    with ByteSource(path) as source:
        outcome = check_unsealed(source, path.name)
        structure = read_structure(source) if turn in (None, 0) else None
    for finding in outcome.findings:
        finding.to_json()
    for tensor in structure.tensors if structure else ():
        if tensor.num_bytes < 1 << 22 and not tensor.unreadable:
            read_tensor_bytes(path, tensor)
    with contextlib.suppress(EverybitError):
        if turn in (None, 1):
            read_plain_values(path)
    with contextlib.suppress(EverybitError):
        if turn in (None, 2):
            read_model(path.parent if path.suffix in (".distcp", "") else path)


@pytest.mark.parametrize("make", MAKERS)
def test_mutants(tmp_path, make):
    path = make(tmp_path)
    whole = path.read_bytes()
    read_in_all_ways(path)
    rng = random.Random(11)
    slowest = 0.0
    for turn in range(NUM_MUTANTS):
        path.write_bytes(mutate(whole, rng))
        start = time.process_time()
        read_in_all_ways(path, turn % 3)
        if path.name == "meta.pkl":
            read_in_all_ways(path.with_name("train.bin"), turn % 3)
        slowest = max(slowest, time.process_time() - start)
    assert slowest < SECONDS


def bounded(path, *, megabytes=48):
    start = time.process_time()
    read_in_all_ways(path)
    assert time.process_time() - start < SECONDS
    tracemalloc.start()
    try:
        with ByteSource(path) as source:
            read_structure(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes << 20


MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
INFO = pickle.dumps(
    {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    },
    2,
)


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x02" + b"(" * 50_000,
        b"\x80\x02" + b"]" + b"]a" * 20_000 + b".",
        b"\x80\x02" + b")" + b"\x85" * 20_000 + b"Q.",
        b"\x80\x02\x8b\xff\xff\xff\x7f",
        b"\x80\x02(X\xff\xff\xff\xff",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x02I" + b"9" * 100_000 + b"\n.",
        b"\x80\x02N." + pickle.dumps([str(i) for i in range(10_000)], 2),
        b"\x80\x02N." + pickle.dumps(["1"] * 1000, 2),
        b"cos\nsystem\n(X\x04\x00\x00\x00exittR.",
    ],
)
def test_pickles_made_to_exhaust_a_reader(tmp_path, body):
    path = tmp_path / "m.pt"
    path.write_bytes(MAGIC + INFO + body)
    bounded(path)


def test_storages_that_promise_the_world(tmp_path):
    out = io.BytesIO(MAGIC + INFO)
    out.seek(0, 2)
    count = b"\x8a\x08" + struct.pack("<q", (1 << 62) - 1)
    out.write(
        b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(("
        b"X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x007X\x03\0\0\0cpu" + count + b"NtQ"
        b"K\x00(" + count + b"t(K\x01t\x89NtRs."
    )
    out.write(pickle.dumps(["7"], 2) + struct.pack("<q", (1 << 62) - 1))
    path = tmp_path / "m.pt"
    path.write_bytes(out.getvalue())
    bounded(path)


def test_a_tensor_of_many_chunks(tmp_path):
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

    save_dcp({"a": torch.zeros(3)}, tmp_path)
    place = tmp_path / ".metadata"
    with place.open("rb") as file:
        found = pickle.load(file)
    held = found.state_dict_metadata["a"]
    held.size = torch.Size([1500, 1500])
    held.chunks = [
        ChunkStorageMetadata(torch.Size([i, i]), torch.Size([1500 - i, 1500 - i]))
        for i in range(1500)
    ]
    with place.open("wb") as file:
        pickle.dump(found, file)
    bounded(place)


def test_an_archive_that_grows(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(16 << 20))
    bounded(path)


def test_tar_headers_without_end(tmp_path):
    block = bytearray(512)
    block[:7] = b"storage"
    block[124:136] = b"00000000000\0"
    block[156:157] = b"0"
    block[257:263] = b"ustar\0"
    block[148:156] = b" " * 8
    block[148:155] = b"%06o\0" % sum(block)
    path = tmp_path / "m.pt"
    path.write_bytes(bytes(block) * 4_000)
    bounded(path)


def test_an_index_of_many_sequences(tmp_path):
    data, index = megatron(tmp_path)
    raw = bytearray(index.read_bytes())
    raw[18:26] = ((1 << 63) - 1).to_bytes(8, "little")
    index.write_bytes(raw)
    bounded(index)
    bounded(data)


def test_a_file_of_end_records(tmp_path):
    path = tmp_path / "m.distcp"
    path.write_bytes(b"PK\x03\x04" + (b"PK\x05\x06" + bytes(18)) * 8_000)
    bounded(path)
    path.write_bytes(b"PK\x03\x04" * 200_000 + b"PK\x05\x06" + bytes(18))
    bounded(path)
