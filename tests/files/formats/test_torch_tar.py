"""torch 0.1's tar format: real torch reads the file that the test makes, and so does everybit."""

from __future__ import annotations

import pytest
import torch
from tests.files import makers
from tests.files.formats.reading_checks import findings, only, same_as_loaded
from tests.files.formats.tar_maker import save_tar

import everybit
from everybit.core.verdict import Status
from everybit.files import FileFormat, read_plain_values, read_tensors


def value():
    rng = torch.Generator().manual_seed(3)
    base = torch.randn(16, 12, generator=rng)
    return {
        "weight": torch.randn(40, 30, generator=rng),
        "view": base[2:5],
        "transposed": base.t(),
        "ids": torch.arange(7),
        "double": torch.randn(3, 3, generator=rng, dtype=torch.float64),
        "epoch": 4,
    }


@pytest.fixture
def old(tmp_path):
    return save_tar(value(), tmp_path / "old.pt")


def test_real_torch_reads_the_same(old):
    loaded = torch.load(old, weights_only=False)
    assert same_as_loaded(old, loaded) == 5
    assert read_tensors(old).format is FileFormat.TORCH_TAR
    assert read_plain_values(old) == ({"epoch": 4}, True)


def test_a_list_of_storage_views(tmp_path):
    base = torch.arange(10.0)
    root = base.untyped_storage().data_ptr()
    path = save_tar({"a": base}, tmp_path / "v.pt", views=[(77, root, 2, 5)])
    assert same_as_loaded(path, torch.load(path, weights_only=False)) == 1
    assert findings(path) == []


def test_no_checksum_of_the_elements_so_never_clean(old):
    assert findings(old) == []
    assert everybit.verify(old).status is Status.INCONCLUSIVE


def test_a_damaged_header(old):
    makers.flip(old, 3, 1)
    assert only(old).rule == "FIL107"
    assert "checksum" in only(old).message


@pytest.mark.parametrize("left", [0.2, 0.5, 0.8])
def test_a_cut(old, left):
    size = old.stat().st_size
    data = old.read_bytes()
    whole = {t.name: t.byte_ranges for t in read_tensors(old).tensors}
    old.write_bytes(data[: int(size * left)])
    finding = only(old)
    assert finding.rule == "FIL104"
    named = set(finding.evidence["readable"])
    assert named <= {k for k, ((_, end),) in whole.items() if end <= int(size * left)}


def test_a_record_that_cannot_be(old):
    data = old.read_bytes()
    tensor = read_tensors(old).by_name()["weight"]
    count = tensor.start - 8
    makers.overwrite(old, count, (1 << 40).to_bytes(8, "little"))
    finding = only(old)
    assert finding.rule == "FIL107"
    assert finding.where.byte_range == (count, count + 8)
    old.write_bytes(data)
    assert findings(old) == []


def test_bytes_after_its_end(old):
    with old.open("ab") as file:
        file.write(b"x" * 9)
    assert only(old).rule == "FIL107"
