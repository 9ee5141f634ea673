from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

import pytest
import torch
from tests.files import makers

if TYPE_CHECKING:
    from pathlib import Path

import everybit
from everybit.core.verdict import Status
from everybit.files.source import ByteSource
from everybit.files.zips.archive import read_archive


def verdict_of(path: Path):
    return everybit.verify(path)


def only_finding(path: Path):
    (finding,) = verdict_of(path).findings
    return finding


def member(path: Path, name: str):
    with ByteSource(path) as source:
        (found,) = [m for m in read_archive(source).members if m.name.endswith(name)]
    return found


def test_a_clean_archive_is_clean(checkpoint):
    verdict = verdict_of(checkpoint)
    assert verdict.status is Status.CLEAN
    assert {item.what for item in verdict.coverage.checked} == {
        "member checksums",
        "file structures",
        "tensors tested for holes and impossible values",
    }


def test_the_directory_agrees_with_zipfile(checkpoint):
    with ByteSource(checkpoint) as source, zipfile.ZipFile(checkpoint) as archive:
        found = read_archive(source)
        assert [m.name for m in found.members] == archive.namelist()
        assert [m.crc for m in found.members] == [info.CRC for info in archive.infolist()]
        for m in found.members:
            assert source.read(m.start, m.size) == archive.read(m.name)
        assert not found.damages


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_a_tensor_is_named_by_the_checksum(checkpoint, bit):
    place = member(checkpoint, "data/0").start + 400 * bit + 2
    makers.flip(checkpoint, place, bit)
    finding = only_finding(checkpoint)
    assert (finding.rule, finding.where.tensor) == ("FIL108", "model.weight")
    assert finding.where.byte_range == (place, place + 1)
    assert finding.where.elements == (100 * bit,)
    assert finding.evidence["changes"][0]["bits"] == [16 + bit]
    assert 0 < finding.evidence["chance_of_mimicry"] < 0.01


def test_larger_damage_names_the_member(checkpoint):
    place = member(checkpoint, "data/0").start
    makers.overwrite(checkpoint, place + 100, b"\x55" * 4096)
    finding = only_finding(checkpoint)
    assert (finding.rule, finding.where.tensor) == ("FIL108", "model.weight")
    assert "changes" not in finding.evidence


def test_every_damaged_member_is_found_not_only_the_first(checkpoint):
    for name in ("data/0", "data/1", "/version"):
        makers.flip(checkpoint, member(checkpoint, name).start)
    assert [finding.rule for finding in verdict_of(checkpoint).findings] == ["FIL108"] * 3


def test_an_archive_without_checksums_is_not_checked_and_not_damaged(tmp_path, without_checksums):
    path = makers.save(makers.weights(), tmp_path / "m.pt")
    makers.flip(path, member(path, "data/0").start)
    verdict = verdict_of(path)
    assert verdict.status is Status.INCONCLUSIVE
    assert not verdict.findings
    assert "without checksums" in verdict.coverage.skipped[0].why
    assert everybit.verify(path, level="structure").status is Status.CLEAN


def test_a_damaged_pickle_record_is_one_finding(checkpoint):
    record = member(checkpoint, "data.pkl")
    for offset in (0, 1, 20, record.size // 2, record.size - 1):
        makers.flip(checkpoint, record.start + offset, 3)
        finding = only_finding(checkpoint)
        assert finding.rule == "FIL108"
        assert finding.where.member == record.name
        makers.flip(checkpoint, record.start + offset, 3)
    makers.overwrite(checkpoint, record.start + 10, b"\x00" * 40)
    finding = only_finding(checkpoint)
    assert finding.rule == "FIL108"
    assert finding.evidence["structure"]


FIELDS = {
    "end: members": (-22 + 10, 1),
    "end: directory size": (-22 + 12, 2),
    "end: directory offset": (-22 + 16, 3),
    "locator": (-22 - 20, 0),
    "end64: members": (-22 - 20 - 56 + 32, 0),
}


@pytest.mark.parametrize("name", FIELDS)
def test_damaged_end_records(checkpoint, name):
    offset, bit = FIELDS[name]
    makers.flip(checkpoint, checkpoint.stat().st_size + offset, bit)
    for finding in verdict_of(checkpoint).findings:
        assert finding.rule == "FIL107"
    assert verdict_of(checkpoint).findings


def test_a_damaged_end_signature_is_not_called_a_truncation(checkpoint):
    makers.flip(checkpoint, checkpoint.stat().st_size - 22)
    finding = only_finding(checkpoint)
    assert finding.rule == "FIL107"
    assert "end-of-archive" in finding.message


def test_local_headers_are_held_against_the_directory(checkpoint):
    header = member(checkpoint, "data/0").header_offset
    for offset in (0, 6, 8, 10, 26, 31):
        makers.flip(checkpoint, header + offset, 2)
        rules = {finding.rule for finding in verdict_of(checkpoint).findings}
        assert rules == {"FIL107"}, offset
        makers.flip(checkpoint, header + offset, 2)


def test_padding_and_descriptors_are_held_against_what_pytorch_writes(checkpoint):
    weight = member(checkpoint, "data/2")
    makers.flip(checkpoint, weight.start - 1)
    assert "padding" in only_finding(checkpoint).message
    makers.flip(checkpoint, weight.start - 1)
    makers.flip(checkpoint, weight.end + 5)
    finding = only_finding(checkpoint)
    assert finding.rule == "FIL107"
    assert "descriptor's checksum" in finding.message
    assert finding.where.byte_range == (weight.end, weight.end + 16)


def test_a_damaged_checksum_in_the_directory_is_not_blamed_on_the_data(checkpoint):
    data = checkpoint.read_bytes()
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"model/data/3"))
    makers.flip(checkpoint, entry + 16)
    finding = only_finding(checkpoint)
    assert finding.rule == "FIL107"
    assert "directory's checksum" in finding.message


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_cut_archive_names_what_is_readable(checkpoint, share):
    data = checkpoint.read_bytes()
    whole = {m: member(checkpoint, m).end for m in ("data/0", "data/1", "data/2")}
    cut = int(len(data) * share)
    checkpoint.write_bytes(data[:cut])
    finding = only_finding(checkpoint)
    assert finding.rule == "FIL104"
    readable = finding.evidence["readable"]
    assert ("model.weight" in readable) == (whole["data/0"] + 16 <= cut)
    assert ("model.conv" in readable) == (whole["data/2"] + 16 <= cut)


def test_duplicate_and_overlapping_members(tmp_path):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02N.")
        archive.writestr("m/version", b"3")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("m/version", b"4")
    assert "two members" in only_finding(path).message
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, second + 42, 0)
    path.write_bytes(data)
    assert {finding.rule for finding in verdict_of(path).findings} == {"FIL107"}


def test_tensors_that_reach_beyond_their_storage(tmp_path):
    # A storage shorter than its tensor, as a buggy writer would leave it.
    good = makers.save({"w": torch.ones(100)}, tmp_path / "m.pt")
    bad = tmp_path / "bad.pt"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, data[:-4] if "/data/0" in info.filename else data)
    finding = only_finding(bad)
    assert (finding.rule, finding.where.tensor) == ("FIL107", "w")
    assert "396 bytes" in finding.message


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", b"\x80\x02N." + b"\0" * 50_000_000)
    verdict = verdict_of(path)
    assert verdict.status is not Status.CLEAN
    assert verdict.stats["seconds"] < 2


def test_a_compressed_archive_is_checked_too(tmp_path):
    plain = makers.save(makers.weights(), tmp_path / "m.pt")
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert verdict_of(packed).status is Status.CLEAN
    place = member(packed, "data/0").start + 1000
    makers.flip(packed, place)
    assert [finding.rule for finding in verdict_of(packed).findings] != []


def test_members_beyond_the_file_and_wide_records(tmp_path):
    path = tmp_path / "wide.pt"
    with (
        zipfile.ZipFile(path, "w") as archive,
        archive.open("m/data.pkl", "w", force_zip64=True) as record,
    ):
        record.write(b"\x80\x02N.")
    assert verdict_of(path).status is Status.CLEAN
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, entry + 42, 1 << 30)
    path.write_bytes(data)
    assert "outside the file" in only_finding(path).message


def test_one_checksum_among_zeros_is_a_damaged_field(tmp_path, without_checksums):
    path = makers.save(makers.weights(), tmp_path / "m.pt")
    makers.flip(path, member(path, "data/0").end + 4)
    for level in ("full", "structure"):
        (finding,) = everybit.verify(path, level=level).findings
        assert finding.rule == "FIL107"
        assert "disagree on the checksum" in finding.message


def test_checksum_records_are_compared_without_reading_the_data(tmp_path):
    path = makers.save({"w": torch.zeros(500_000)}, tmp_path / "m.pt")
    makers.flip(path, member(path, "data/0").end + 4)
    (finding,) = everybit.verify(path, level="structure").findings
    assert "disagree on the checksum" in finding.message
