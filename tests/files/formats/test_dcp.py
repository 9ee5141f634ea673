"""DCP folders that torch wrote: names, chunks, checksums, and every way they can disagree."""

from __future__ import annotations

import shutil

import pytest
import torch
from tests.files import makers
from tests.files.formats.dcp_maker import (
    load_metadata,
    save_dcp,
    save_dcp_of_two_ranks,
    store_metadata,
    whole_tensors,
)
from tests.files.formats.reading_checks import findings, only, pick
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

import everybit
from everybit.core.errors import DamagedError
from everybit.core.verdict import Status
from everybit.files import FileFormat, read_plain_values, read_tensor_bytes, read_tensors
from everybit.files.model import Layout, read_model, read_model_tensor


def value():
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(5)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optim": optimizer.state_dict(),
        "epoch": 7,
        "ä": torch.randn(30, 20).t(),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2),
        "table": torch.randn(200, 64),
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dcp") / "step_7"
    held = value()
    save_dcp(held, folder)
    return folder, held


@pytest.fixture
def saved(made, tmp_path):
    folder = tmp_path / "step_7"
    shutil.copytree(made[0], folder)
    return folder / "__0_0.distcp"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks") / "sharded"
    save_dcp_of_two_ranks(folder)
    return folder


def test_tensors_have_their_names_and_bytes(made):
    folder, held = made
    path = folder / "__0_0.distcp"
    found = read_tensors(path)
    assert found.format is FileFormat.DISTCP
    assert len(found.tensors) == 12
    for tensor in found.tensors:
        loaded = pick(held, tensor.name)
        assert read_tensor_bytes(path, tensor) == makers.canonical(loaded), tensor.name
    assert everybit.verify(path).status is Status.CLEAN
    values, whole = read_plain_values(path)
    assert whole
    assert values["epoch"] == 7
    assert values["optim.param_groups.0.betas.1"] == 0.999


def test_the_model_in_the_folder(made):
    folder, held = made
    model = read_model(folder, digests=True)
    assert model.layout is Layout.DCP
    assert model.values["epoch"] == 7
    for tensor in model.tensors:
        assert read_model_tensor(model, tensor) == makers.canonical(pick(held, tensor.name))
    table = model.by_name()["table"]
    raw = makers.canonical(held["table"])
    assert read_model_tensor(model, table, 13, 9001) == raw[13:9001]


def test_tensors_sharded_over_two_ranks(ranks):
    model = read_model(ranks, digests=True)
    whole = whole_tensors()
    assert {tensor.name for tensor in model.tensors} == whole.keys()
    for tensor in model.tensors:
        raw = makers.canonical(whole[tensor.name])
        assert read_model_tensor(model, tensor) == raw, tensor.name
        assert read_model_tensor(model, tensor, 3, len(raw) - 5) == raw[3 : len(raw) - 5]
    assert len(model.by_name()["rows"].parts) == 2
    assert model.values["step"] == 12
    target = {key: torch.zeros_like(tensor) for key, tensor in whole.items()}
    dcp.load(target, checkpoint_id=str(ranks), no_dist=True)
    assert all(torch.equal(target[key], whole[key]) for key in whole)
    for name in ("__0_0.distcp", "__1_0.distcp"):
        assert findings(ranks / name) == []
    same = torch.save(whole, ranks.with_name("whole.pt")) or read_model(
        ranks.with_name("whole.pt"), digests=True
    )
    assert {t.name: t.tree for t in same.tensors} == {t.name: t.tree for t in model.tensors}


def test_two_chunks_of_a_tensor_in_one_file_have_two_names(ranks, tmp_path):
    folder = tmp_path / "one"
    shutil.copytree(ranks, folder)
    metadata = load_metadata(folder)
    second = (folder / "__1_0.distcp").read_bytes()
    base = (folder / "__0_0.distcp").stat().st_size
    with (folder / "__0_0.distcp").open("ab") as file:
        file.write(second)
    for info in metadata.storage_data.values():
        if info.relative_path == "__1_0.distcp":
            info.relative_path = "__0_0.distcp"
            info.offset += base
    store_metadata(folder, metadata)
    (folder / "__1_0.distcp").unlink()
    names = {tensor.name for tensor in read_tensors(folder / "__0_0.distcp").tensors}
    assert {"rows[0:4,0:5]", "rows[4:7,0:5]"} <= names
    assert findings(folder / "__0_0.distcp") == []


def test_a_flipped_bit_names_its_tensor_and_element(saved):
    tensor = read_tensors(saved).by_name()["table"]
    makers.flip(saved, tensor.start + 4 * 1234 + 1, 6)
    finding = only(saved)
    assert finding.rule == "FIL108"
    assert finding.where.tensor == "table"
    assert finding.where.elements == (1234,)
    assert finding.where.member.startswith("table/")


def test_a_flip_in_an_entrys_pickle_is_one_finding(saved):
    data = saved.read_bytes()
    metadata = load_metadata(saved.parent)
    info = metadata.storage_data[MetadataIndex("table", [0, 0])]
    start = data.index(b"\x80\x02", info.offset)
    for offset in range(start, start + 120, 7):
        makers.flip(saved, offset, 0)
        assert only(saved).rule == "FIL108", offset
        saved.write_bytes(data)


def test_a_cut_names_the_chunks_before_it(saved):
    size = saved.stat().st_size
    data = saved.read_bytes()
    for cut in (size - 1, size - 20_000, 3000):
        saved.write_bytes(data[:cut])
        finding = only(saved)
        assert finding.rule == "FIL104"
        assert finding.where.byte_range == (cut, size)
        assert finding.evidence["promised_by"] == ".metadata"
        assert "table" not in finding.evidence["readable"]


def test_bytes_after_the_last_entry_and_between(saved):
    data = saved.read_bytes()
    saved.write_bytes(data + b"12345")
    finding = only(saved)
    assert finding.rule == "FIL107"
    assert finding.where.byte_range == (len(data), len(data) + 5)
    saved.write_bytes(data)
    metadata = load_metadata(saved.parent)
    gone, info = sorted(metadata.storage_data.items(), key=lambda item: item[1].offset)[4]
    for table in (metadata.state_dict_metadata, metadata.planner_data):
        del table[gone.fqn]
    del metadata.storage_data[gone]
    store_metadata(saved.parent, metadata)
    finding = only(saved)
    assert finding.rule == "FIL107"
    assert finding.where.byte_range == (info.offset, info.offset + info.length)
    assert findings(saved.parent / ".metadata") == []


def test_metadata_and_entry_disagree_in_dtype_or_shape(saved):
    metadata = load_metadata(saved.parent)
    metadata.state_dict_metadata["table"].properties.dtype = torch.float64
    store_metadata(saved.parent, metadata)
    finding = only(saved)
    assert finding.rule == "FIL114"
    assert finding.where.tensor == "table"
    assert "float64" in finding.message
    metadata = load_metadata(saved.parent)
    metadata.state_dict_metadata["table"].properties.dtype = torch.float32
    metadata.state_dict_metadata["table"].size = torch.Size([64, 200])
    metadata.state_dict_metadata["table"].chunks[0] = ChunkStorageMetadata(
        torch.Size([0, 0]), torch.Size([64, 200])
    )
    store_metadata(saved.parent, metadata)
    assert only(saved).rule == "FIL114"
    with pytest.raises(DamagedError):
        read_model(saved.parent)


def test_the_file_of_another_save(saved, tmp_path):
    other = save_dcp({"x": torch.randn(50), "y": torch.randn(9)}, tmp_path / "other")
    shutil.copy(other, saved)
    assert "FIL104" in {rule for rule, _ in findings(saved)} or only(saved).rule == "FIL114"
    big = save_dcp({f"x{i}": torch.randn(500) for i in range(40)}, tmp_path / "big")
    shutil.copy(big, saved)
    finding = only(saved)
    assert finding.rule == "FIL114"
    assert "another rank or another save" in finding.message


def test_entries_that_overlap(saved):
    metadata = load_metadata(saved.parent)
    first, second, *_ = sorted(metadata.storage_data.values(), key=lambda info: info.offset)
    second.offset = first.offset
    store_metadata(saved.parent, metadata)
    assert "overlap" in only(saved.parent / ".metadata").message
    # Told where it is wrong, and once; the entries themselves keep their names and are whole.
    assert findings(saved) == []
    assert "table" in read_tensors(saved).by_name()
    skipped = everybit.verify(saved).coverage.skipped
    assert any("damaged" in item.why for item in skipped)


def test_metadata_in_itself(saved):
    folder = saved.parent
    good = load_metadata(folder)
    assert findings(folder / ".metadata") == []
    assert everybit.verify(folder / ".metadata").status is Status.INCONCLUSIVE

    def told(change):
        metadata = load_metadata(folder)
        change(metadata)
        store_metadata(folder, metadata)
        finding = only(folder / ".metadata")
        store_metadata(folder, good)
        assert finding.rule == "FIL107"
        return finding.message

    def chunk(metadata):
        metadata.state_dict_metadata["table"].chunks[0].sizes = torch.Size([199, 64])

    def outside(metadata):
        metadata.state_dict_metadata["table"].chunks[0].offsets = torch.Size([1, 0])

    def path(metadata):
        next(iter(metadata.storage_data.values())).relative_path = "../x"

    def name(metadata):
        key = next(iter(metadata.planner_data))
        metadata.planner_data[key] = ("other",)

    assert "missing" in told(chunk)
    assert "outside" in told(outside)
    assert "does not lie in the folder" in told(path)
    assert "path" in told(name)


def test_a_damaged_metadata_is_told_once_where_it_lies(saved):
    place = saved.parent / ".metadata"
    data = place.read_bytes()
    for size in (0, 1, 40, len(data) // 2, len(data) - 1):
        place.write_bytes(data[:size])
        assert only(place).rule == "FIL104"
        assert findings(saved) == []
        verdict = everybit.verify(saved)
        assert any(".metadata" in item.why for item in verdict.coverage.skipped)
    place.write_bytes(b"\0" + data[1:])
    assert only(place).rule == "FIL107"


def test_without_metadata_entries_are_found_one_after_the_other(saved):
    named = {t.start: t for t in read_tensors(saved).tensors}
    (saved.parent / ".metadata").unlink()
    found = read_tensors(saved)
    assert found.format is FileFormat.DISTCP
    assert {t.start for t in found.tensors} == named.keys()
    assert all(t.shape == named[t.start].shape for t in found.tensors)
    assert everybit.verify(saved).status is Status.CLEAN
    data = saved.read_bytes()
    big = max(found.tensors, key=lambda tensor: tensor.num_bytes)
    makers.flip(saved, big.start + 4000, 3)
    assert only(saved).where.tensor == big.name
    saved.write_bytes(data[: big.start + 100])
    assert only(saved).rule == "FIL104"
    # A lost beginning of one entry does not hide the others.
    entry = 1 + data.index(b"PK\x05\x06")
    start = data.index(b"PK\x03\x04", entry)
    saved.write_bytes(data[:start] + bytes(4) + data[start + 4 :])
    rules = {rule for rule, _ in findings(saved)}
    assert rules == {"FIL107"}
    assert everybit.verify(saved).coverage.checked


def test_an_entry_that_went_through_a_transform_is_not_read(saved):
    metadata = load_metadata(saved.parent)
    metadata.storage_data[MetadataIndex("table", [0, 0])].transform_descriptors = ["zstd"]
    store_metadata(saved.parent, metadata)
    verdict = everybit.verify(saved)
    assert not verdict.findings
    assert any("zstd" in item.why for item in verdict.coverage.skipped)
    assert read_model(saved.parent).by_name()["table"].unreadable


def test_a_missing_file(saved):
    saved.unlink()
    with pytest.raises(DamagedError, match="missing"):
        read_model(saved.parent)
