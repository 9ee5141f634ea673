"""npy and npz: parsed strictly, read as NumPy reads them."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from tests.files import makers
from tests.files.formats.reading_checks import findings, only

import everybit
from everybit.core.errors import DamagedError
from everybit.core.verdict import Status
from everybit.files import FileFormat, read_tensor_bytes, read_tensors

ARRAYS = {
    "plain": np.arange(12, dtype="<f4").reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(24, dtype="<i8").reshape(2, 3, 4)),
    "big": np.arange(6, dtype=">f8"),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 7), dtype="<f2"),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "one": np.arange(5, dtype="<u2"),
}


def little(array):
    array = np.asarray(array)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_read_as_numpy_reads_it(tmp_path, name, version):
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asarray(ARRAYS[name]), version=version)
    assert findings(path) == []
    assert everybit.verify(path).status is Status.INCONCLUSIVE
    (tensor,) = read_tensors(path).tensors
    assert read_tensors(path).format is FileFormat.NPY
    assert tensor.shape == np.shape(ARRAYS[name])
    assert read_tensor_bytes(path, tensor) == little(ARRAYS[name])


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.array([{}], dtype=object), "Python objects"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "records"),
        (np.array([(1, [{}])], dtype=[("a", "i4"), ("b", "O", (1,))]), "records"),
        (np.array(["abc"]), "text"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "dates"),
        (np.array([1.0], dtype=np.longdouble), "dtype"),
    ],
)
def test_what_is_no_plain_number_is_told(tmp_path, array, why):
    path = tmp_path / "o.npy"
    np.save(path, array)
    assert read_tensors(path).tensors == ()
    assert why in read_tensors(path).skipped[0].why
    assert findings(path) == []


def test_cut_and_followed_by_bytes(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, ARRAYS["plain"])
    data = path.read_bytes()
    for cut in (3, 9, 50, len(data) - 1):
        path.write_bytes(data[:cut])
        assert only(path).rule == "FIL104" or cut < 6
    path.write_bytes(data + b"\0")
    finding = only(path)
    assert (finding.rule, finding.where.byte_range) == ("FIL107", (len(data), len(data) + 1))
    path.write_bytes(data + data)
    verdict = everybit.verify(path)
    assert not verdict.findings
    assert any("second array" in item.why for item in verdict.coverage.skipped)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1, }",
        b"{'descr': '<f9', 'fortran_order': False, 'shape': (3, 4), }",
        b"{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': [3, 4], }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999, 4), }",
        b"__import__('os').getpid()",
        b"(" * 300,
        b"-" * 60000,
        b"{'descr': [('a', [('b', [('c', 'Q')])])], 'fortran_order': False, 'shape': (1,), }",
        b"\xff\xfe",
    ],
)
def test_headers_that_cannot_be(tmp_path, header):
    path = tmp_path / "h.npy"
    path.write_bytes(b"\x93NUMPY\x02\0" + (len(header) + 1).to_bytes(4, "little") + header + b"\n")
    assert only(path).rule == "FIL107"
    with pytest.raises(DamagedError):
        read_tensors(path)


def test_an_archive_of_arrays(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **ARRAYS)
    assert everybit.verify(path).status is Status.CLEAN
    found = read_tensors(path)
    assert found.format is FileFormat.NPZ
    assert {t.name for t in found.tensors} == ARRAYS.keys()
    for tensor in found.tensors:
        assert read_tensor_bytes(path, tensor) == little(ARRAYS[tensor.name])


def test_a_flip_in_an_array_is_found_by_its_checksum(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(1000.0), y=np.ones(3))
    tensor = read_tensors(path).by_name()["x"]
    makers.flip(path, tensor.start + 8 * 37 + 2, 4)
    finding = only(path)
    assert finding.rule == "FIL108"
    assert finding.where.tensor == "x"
    assert finding.where.elements == (37,)


def test_a_flip_in_a_header_is_one_finding(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(1000.0))
    tensor = read_tensors(path).by_name()["x"]
    for offset in (-128, -125, -100, -60, -1):
        makers.flip(path, tensor.start + offset, 1)
        assert only(path).rule == "FIL108", offset
        makers.flip(path, tensor.start + offset, 1)


def test_a_compressed_archive_is_checked_by_its_checksums(tmp_path):
    path = tmp_path / "c.npz"
    np.savez_compressed(path, x=np.arange(5000.0), o=np.array([{}], dtype=object))
    assert everybit.verify(path).status is Status.CLEAN
    (tensor,) = read_tensors(path).tensors
    assert tensor.shape == (5000,)
    assert "compressed" in tensor.unreadable
    makers.flip(path, tensor.start + 900, 1)
    assert everybit.verify(path).status is Status.FINDINGS


def test_a_header_that_its_member_does_not_fit(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(10.0))
    path = tmp_path / "short.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", buffer.getvalue()[:-8])
    finding = only(path)
    assert finding.rule == "FIL107"
    assert "promises" in finding.message


def test_a_header_of_python_2_is_read(tmp_path):
    place = tmp_path / "old.npy"
    np.save(place, np.arange(3.0))
    data = place.read_bytes().replace(b"(3,), } ", b"(3L,), }")
    place.write_bytes(data)
    assert np.array_equal(np.load(place), np.arange(3.0))
    (tensor,) = read_tensors(place).tensors
    assert tensor.shape == (3,)
