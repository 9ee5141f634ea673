"""`torch.save` before 1.6: read as torch reads it; cuts and damages told with their places."""

from __future__ import annotations

import io
import pickle
import struct

import pytest
import torch
from tests.files import makers
from tests.files.formats.reading_checks import findings, only, same_as_loaded

import everybit
from everybit.core.errors import DamagedError
from everybit.core.verdict import Status
from everybit.files import FileFormat, read_plain_values, read_tensors


def save(value, path, **options):
    torch.save(value, path, _use_new_zipfile_serialization=False, **options)
    return path


@pytest.fixture
def legacy(tmp_path):
    return save(makers.weights(), tmp_path / "old.pt")


def test_views_strides_and_shared_storages_read_as_torch_reads_them(legacy):
    assert same_as_loaded(legacy, torch.load(legacy, weights_only=False)) == 11
    found = read_tensors(legacy)
    assert found.format is FileFormat.TORCH_LEGACY
    by_name = found.by_name()
    assert by_name["model.tied"].tree == by_name["model.head"].tree
    assert by_name["model.transposed"].stride == (1, 48)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_pickle_protocol(tmp_path, protocol):
    value = {"ä": torch.arange(6.0).reshape(2, 3), "n": 3}
    path = save(value, tmp_path / "p.pt", pickle_protocol=protocol)
    assert same_as_loaded(path, torch.load(path, weights_only=False)) == 1
    assert read_plain_values(path) == ({"n": 3}, True)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.bool, torch.int8, torch.complex64]
)
def test_dtypes(tmp_path, dtype):
    value = {"a": torch.arange(12).reshape(3, 4).to(dtype).t(), "s": torch.tensor(1).to(dtype)}
    path = save(value, tmp_path / "d.pt")
    assert same_as_loaded(path, torch.load(path, weights_only=False)) == 2


def test_a_whole_module_and_its_class(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    path = save(module, tmp_path / "module.pt")
    names = {tensor.name for tensor in read_tensors(path).tensors}
    assert "_modules.0._parameters.weight" in names
    assert read_tensors(path).skipped == ()
    assert findings(path) == []


def test_it_carries_no_checksum_so_it_is_never_clean(legacy):
    verdict = everybit.verify(legacy)
    assert verdict.status is Status.INCONCLUSIVE
    assert "no checksum" in verdict.coverage.skipped[0].why
    assert everybit.verify(legacy, level="structure").status is Status.CLEAN


def test_elements_are_little_endian_whatever_the_machine(tmp_path):
    path = save({"a": torch.arange(5)}, tmp_path / "big.pt")
    data = path.read_bytes()
    at = data.index(b"little_endian") + len(b"little_endian")
    spot = data.index(b"\x88", at)
    makers.overwrite(path, spot, b"\x89")
    loaded = torch.load(path, weights_only=False)
    assert same_as_loaded(path, loaded) == 1
    assert loaded["a"].tolist() == [0, 1, 2, 3, 4]
    assert findings(path) == []


def test_a_cut_names_what_is_whole_before_it(legacy):
    size = legacy.stat().st_size
    tensors = read_tensors(legacy).tensors
    data = legacy.read_bytes()
    for cut in (size - 1, size - 200_000, 6000):
        legacy.write_bytes(data[:cut])
        finding = only(legacy)
        assert finding.rule == "FIL104"
        assert finding.where.byte_range == (cut, size)
        whole = {t.name for t in tensors if all(end <= cut for _, end in t.byte_ranges)}
        assert set(finding.evidence["readable"]) == whole
        assert whole


@pytest.mark.parametrize("cut", [4, 5, 10, 16, 40, 100, 300, 1500])
def test_a_cut_within_the_pickles(legacy, cut):
    legacy.write_bytes(legacy.read_bytes()[:cut])
    assert only(legacy).rule == "FIL104"


def storages_start(path):
    data = path.read_bytes()
    stream = io.BytesIO(data)
    for _ in range(3):
        pickle.load(stream)
    first = next(t for t in read_tensors(path).tensors if t.byte_ranges)
    assert struct.unpack_from("<q", data, first.start - 8)
    return first.start - 8


def test_a_count_that_the_object_contradicts(legacy):
    at = storages_start(legacy)
    makers.flip(legacy, at, 2)
    finding = only(legacy)
    assert finding.rule == "FIL107"
    assert finding.where.byte_range == (at, at + 8)
    assert "elements" in finding.message
    with pytest.raises(Exception, match="wrong byte size"):
        torch.load(legacy, weights_only=False)


@pytest.mark.parametrize(
    "change", [lambda d, at: d[:at] + d[at + 17 :], lambda d, at: d[:at] + bytes(9) + d[at:]]
)
def test_bytes_lost_or_too_many_in_the_middle_are_one_finding(legacy, change):
    tensors = [tensor for tensor in read_tensors(legacy).tensors if tensor.byte_ranges]
    hit = max(tensors[:-3], key=lambda tensor: tensor.num_bytes)
    legacy.write_bytes(change(legacy.read_bytes(), hit.start + 400))
    finding = only(legacy)
    assert finding.rule == "FIL107"
    assert "count" in finding.message
    assert finding.where.byte_range[0] >= hit.byte_ranges[0][1]


def test_bytes_after_the_last_storage(legacy):
    size = legacy.stat().st_size
    with legacy.open("ab") as file:
        file.write(b"abc")
    finding = only(legacy)
    assert finding.rule == "FIL107"
    assert finding.where.byte_range == (size, size + 3)


def test_a_second_save_in_the_same_file_is_not_damage(legacy):
    legacy.write_bytes(legacy.read_bytes() * 2)
    verdict = everybit.verify(legacy)
    assert not verdict.findings
    assert any("second save" in item.why for item in verdict.coverage.skipped)


@pytest.mark.parametrize("offset", range(14))
def test_one_damaged_byte_of_the_magic_number(legacy, offset):
    makers.flip(legacy, offset, 3)
    found = findings(legacy)
    assert len(found) == 1 or everybit.verify(legacy).status is not Status.CLEAN
    assert everybit.verify(legacy, level="structure").status is not Status.CLEAN


def test_a_storage_that_the_list_lacks(tmp_path):
    path = save({"a": torch.ones(3), "b": torch.zeros(4)}, tmp_path / "k.pt")
    data = path.read_bytes()
    keys = sorted(str(s) for s in _keys(data))
    assert len(keys) == 2
    at = data.rindex(keys[1].encode())
    spoiled = bytearray(data)
    spoiled[at] ^= 1
    path.write_bytes(spoiled)
    finding = only(path)
    assert finding.rule == "FIL107"
    assert "storage" in finding.message
    with pytest.raises(DamagedError):
        read_tensors(path)


def _keys(data):
    stream = io.BytesIO(data)
    for _ in range(3):
        pickle.load(stream)

    class Reader(pickle.Unpickler):
        def persistent_load(self, saved):
            return saved

        def find_class(self, module, name):
            return lambda *args: args

    Reader(stream).load()
    return pickle.load(stream)


def test_python_2_wrote_its_texts_as_bytes(tmp_path):
    path = tmp_path / "py2.pt"
    out = io.BytesIO()
    for value in (0x1950A86A20F9469CFC6C, 1001):
        pickle.dump(value, out, protocol=2)
    info = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    pickle.dump(info, out, protocol=2)
    # {'w': _rebuild_tensor(storage, 1, (2,), (1,))} of a view of elements 1 to 3, in 8-bit texts
    out.write(
        b"\x80\x02}U\x01wctorch._utils\n_rebuild_tensor\n(("
        b"U\x07storagectorch\nFloatStorage\nU\x0277U\x03cpuK\x05U\x0278K\x01K\x03\x87tQ"
        b"K\x01K\x02\x85K\x01\x85tRs."
    )
    out.write(b"\x80\x02]U\x0277a.")
    out.write(struct.pack("<q5f", 5, 0, 1, 2, 3, 4))
    path.write_bytes(out.getvalue())
    assert findings(path) == []
    (tensor,) = read_tensors(path).tensors
    assert (tensor.name, tensor.shape) == ("w", (2,))
    loaded = torch.load(path, weights_only=False, encoding="latin1")
    assert loaded["w"].tolist() == [2.0, 3.0]
    assert same_as_loaded(path, loaded) == 1
