"""Files over 4 GiB, made sparse: offsets beyond 32 bits, read with little memory and at once."""

from __future__ import annotations

import json
import pickle
import struct
import time
import tracemalloc

import numpy as np
import pytest
import torch
from tests.files.formats.reading_checks import findings

from everybit.files import FileFormat, read_tensor_bytes, read_tensors
from everybit.files.zips import records as zr

COUNT = (1 << 30) + 16
NUM_BYTES = 4 * COUNT
LAST = struct.pack("<f", 2.5)


def pickle_of(count):
    number = b"\x8a\x05" + struct.pack("<q", count)[:5]
    return (
        b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(("
        b"X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu" + number + b"tQ"
        b"K\0" + number + b"\x85K\x01\x85\x89NtRs."
    )


def end_at(file, size, data=LAST):
    file.seek(size - len(data))
    file.write(data)


def safetensors(path):
    header = {
        "w": {"dtype": "F32", "shape": [COUNT], "data_offsets": [0, NUM_BYTES]},
    }
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        end_at(file, 8 + len(raw) + NUM_BYTES)


def legacy(path):
    info = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    body = pickle_of(COUNT).replace(b"tQ", b"NtQ", 1)
    with path.open("wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, info):
            pickle.dump(value, file, protocol=2)
        file.write(body)
        pickle.dump(["0"], file, protocol=2)
        file.write(struct.pack("<q", COUNT))
        end_at(file, file.tell() + NUM_BYTES)


def npy(path):
    with path.open("wb") as file:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (COUNT,)}
        np.lib.format.write_array_header_1_0(file, shape)
        end_at(file, file.tell() + NUM_BYTES)


def torch_zip(path):
    """A torch archive without checksums, its records written by hand."""
    members = [("archive/data.pkl", pickle_of(COUNT)), ("archive/data/0", None)]
    central = b""
    with path.open("wb") as file:
        for name, data in members:
            at = file.tell()
            size = NUM_BYTES if data is None else len(data)
            wide = struct.pack("<2H2Q", 1, 16, size, size)
            raw = name.encode()
            file.write(
                zr.LOCAL.pack(
                    zr.LOCAL_MARK, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(raw), len(wide)
                )
                + raw
                + wide
            )
            if data is None:
                end_at(file, file.tell() + size)
            else:
                file.write(data)
            wide = struct.pack("<2H3Q", 1, 24, size, size, at)
            central += zr.CENTRAL.pack(
                zr.CENTRAL_MARK, 45, 45, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF,
                len(raw), len(wide), 0, 0, 0, 0, 0xFFFFFFFF,
            ) + raw + wide  # fmt: skip
        start = file.tell()
        file.write(central)
        end64 = file.tell()
        file.write(
            zr.END64.pack(zr.END64_MARK, 44, 45, 45, 0, 0, 2, 2, len(central), start)
            + zr.LOCATOR64.pack(zr.LOCATOR64_MARK, 0, end64, 1)
            + zr.END.pack(zr.END_MARK, 0, 0, 2, 2, len(central), 0xFFFFFFFF, 0)
        )


@pytest.mark.parametrize("make", [safetensors, legacy, npy, torch_zip])
def test_over_4_gib(tmp_path, make):
    path = tmp_path / "large.bin"
    make(path)
    assert path.stat().st_size > 1 << 32
    tracemalloc.start()
    start = time.process_time()
    (tensor,) = read_tensors(path, digests=False).tensors
    assert tensor.shape == (COUNT,)
    assert read_tensor_bytes(path, tensor, NUM_BYTES - 4) == LAST
    assert read_tensor_bytes(path, tensor, 0, 4) == bytes(4)
    assert findings(path, level="structure") == []
    assert time.process_time() - start < 3
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


def test_ten_thousand_tensors_in_the_format_before_1_6(tmp_path):
    value = {f"層.{i}.wéight": torch.full((3,), float(i)) for i in range(10_000)}
    path = tmp_path / "many.pt"
    torch.save(value, path, _use_new_zipfile_serialization=False)
    start = time.process_time()
    found = read_tensors(path, digests=False)
    assert time.process_time() - start < 20
    assert found.format is FileFormat.TORCH_LEGACY
    assert len(found.tensors) == 10_000
    tensor = found.by_name()["層.777.wéight"]
    assert read_tensor_bytes(path, tensor) == np.full(3, 777, "<f4").tobytes()
