"""Token files: llm.c, Megatron, nanoGPT; sizes, pointers, dtype and vocabulary."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest
from tests.files import makers
from tests.files.formats.reading_checks import findings, only

import everybit
from everybit.core.verdict import Status
from everybit.files import FileFormat, read_tensor_bytes, read_tensors

IDS = np.random.default_rng(5).integers(0, 50257, 5000)


def llmc(path, ids=IDS, magic=20240520, version=1, dtype="<u2", count=None):
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, len(ids) if count is None else count
    path.write_bytes(header.tobytes() + ids.astype(dtype).tobytes())
    return path


def megatron(folder, lengths=(5, 1, 0, 7, 30), dtype="<u2", code=8):
    lengths = np.array(lengths, dtype="<i4")
    width = np.dtype(dtype).itemsize
    pointers = (np.cumsum(lengths) - lengths).astype("<i8") * width
    documents = np.array([0, 2, len(lengths)], dtype="<i8")
    ids = IDS[: lengths.sum()].astype(dtype)
    (folder / "d.bin").write_bytes(ids.tobytes())
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(documents))
    (folder / "d.idx").write_bytes(
        header + lengths.tobytes() + pointers.tobytes() + documents.tobytes()
    )
    return folder / "d.bin", folder / "d.idx"


def nanogpt(folder, ids=IDS, dtype="<u2", vocab_size=50257, name="train.bin"):
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocab_size, "itos": {0: "a"}}))
    (folder / name).write_bytes(ids.astype(dtype).tobytes())
    return folder / name


@pytest.mark.parametrize(
    ("magic", "version", "dtype"), [(20240520, 1, "<u2"), (20240801, 7, "<u4")]
)
def test_llmc(tmp_path, magic, version, dtype):
    path = llmc(tmp_path / "train.bin", magic=magic, version=version, dtype=dtype)
    assert findings(path) == []
    assert everybit.verify(path).status is Status.INCONCLUSIVE
    (tensor,) = read_tensors(path).tensors
    assert read_tensors(path).format is FileFormat.TOKENS
    assert read_tensor_bytes(path, tensor) == IDS.astype(dtype).tobytes()
    assert everybit.verify(tmp_path).status is Status.INCONCLUSIVE


def test_llmc_sizes_and_header(tmp_path):
    path = llmc(tmp_path / "a.bin")
    data = path.read_bytes()
    for cut in (len(data) - 2, 1024, 1000, 12):
        path.write_bytes(data[:cut])
        assert only(path).rule == "FIL104"
    path.write_bytes(data + b"\0\0")
    assert only(path).rule == "FIL107"
    assert only(llmc(path, version=3)).rule == "FIL107"
    assert only(llmc(path, count=-4)).rule == "FIL107"


@pytest.mark.parametrize(("dtype", "code"), [("<u2", 8), ("<i4", 4), ("u1", 1)])
def test_megatron(tmp_path, dtype, code):
    data, index = megatron(tmp_path, dtype=dtype, code=code)
    assert findings(data) == findings(index) == []
    assert read_tensors(data).tensors[0].shape == (43,)
    names = {tensor.name: tensor.shape for tensor in read_tensors(index).tensors}
    assert names == {"lengths": (5,), "pointers": (5,), "documents": (3,)}


def test_megatron_pairs_that_do_not_fit(tmp_path):
    data, index = megatron(tmp_path)
    whole, listed = data.read_bytes(), index.read_bytes()
    data.write_bytes(whole[:-2])
    assert only(data).rule == "FIL104"
    assert only(data).evidence["promised_by"] == "d.idx"
    data.write_bytes(whole + b"\0\0")
    assert only(data).rule == "FIL107"
    data.write_bytes(whole)
    for offset in (34 + 4, 34 + 20 + 8, 34 + 20 + 40 + 16):
        makers.flip(index, offset, 1)
        assert only(index).rule == "FIL107"
        assert only(index).where.byte_range[0] >= offset - 40
        index.write_bytes(listed)
    for cut in (20, 40, len(listed) - 1):
        index.write_bytes(listed[:cut])
        assert only(index).rule == "FIL104"
    index.write_bytes(listed[:17] + b"\x09" + listed[18:])
    assert only(index).rule == "FIL107"
    index.write_bytes(listed + b"\0" * 5)
    assert findings(index) == []
    index.write_bytes(listed + b"\0" * 4)
    assert only(index).rule == "FIL107"


def test_nanogpt(tmp_path):
    path = nanogpt(tmp_path)
    assert findings(path) == []
    assert everybit.verify(path).status is Status.INCONCLUSIVE
    assert read_tensors(path).tensors[0].dtype == "uint16"
    path.write_bytes(path.read_bytes()[:-1])
    assert only(path).rule == "FIL107"


def test_a_vocabulary_that_the_dtype_cannot_hold(tmp_path):
    ids = np.arange(100_000)
    path = nanogpt(tmp_path, ids=ids, vocab_size=100_277)
    finding = only(path)
    assert finding.rule == "FIL114"
    assert finding.evidence["vocab_size"] == 100_277
    assert "65535" in finding.message
    wide = nanogpt(tmp_path, ids=ids, vocab_size=100_277, dtype="<u4")
    assert findings(wide) == []
    assert read_tensors(wide).tensors[0].dtype == "uint32"


def test_a_vocabulary_that_just_fits(tmp_path):
    path = nanogpt(tmp_path, ids=np.array([65535, 1, 2, 65535]), vocab_size=65536)
    assert findings(path) == []


def test_ids_beyond_the_vocabulary(tmp_path):
    path = nanogpt(tmp_path)
    data = bytearray(path.read_bytes())
    data[2 * 700 : 2 * 700 + 2] = (50257).to_bytes(2, "little")
    path.write_bytes(data)
    finding = only(path)
    assert finding.rule == "FIL114"
    assert finding.where.elements == (700,)
    assert finding.evidence["largest"] == 50257
    assert findings(path, level="structure") == []
    data[2 * 700 : 2 * 700 + 2] = (50256).to_bytes(2, "little")
    path.write_bytes(data)
    assert findings(path) == []


def test_small_vocabularies_in_wide_ids(tmp_path):
    ids = np.random.default_rng(1).integers(0, 65, 4000)
    assert read_tensors(nanogpt(tmp_path, ids=ids, vocab_size=65)).tensors[0].dtype == "uint16"
    wide = nanogpt(tmp_path, ids=ids, vocab_size=65, dtype="<u4")
    assert findings(wide) == []


def test_a_bare_file_that_nothing_describes_is_not_read(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(IDS.astype("<u2").tobytes())
    verdict = everybit.verify(path)
    assert verdict.status is Status.INCONCLUSIVE
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"other": 1}))
    assert everybit.verify(path).status is Status.INCONCLUSIVE
