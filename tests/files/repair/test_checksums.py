"""Archives without a seal: one flipped bit is put back where a second witness agrees."""

from __future__ import annotations

import random
import shutil
import zlib

import pytest
import torch
from tests.files import makers

import everybit
from everybit.files import crc32
from everybit.files.reading import read_structure, read_tensors
from everybit.files.source import ByteSource


def model(seed=0, sizes=((64, 300), (300,), (40, 40))):
    rng = torch.Generator().manual_seed(seed)
    return {
        f"layers.{index}.weight": 0.02 * torch.randn(*size, generator=rng)
        for index, size in enumerate(sizes)
    }


@pytest.fixture
def saved(tmp_path):
    # Two folders deep: what lies beside a folder under the same name is a neighbour.
    folder = tmp_path / "alone" / "run"
    folder.mkdir(parents=True)
    path = makers.save(model(), folder / "model.pt")
    return path, path.read_bytes()


def place(path, name="layers.0.weight"):
    return next(t.start for t in read_tensors(path, digests=False).tensors if t.name == name)


def members(path):
    with ByteSource(path) as source:
        return {member.name.partition("/")[2]: member for member in read_structure(source).members}


def test_a_whole_archive_is_left_alone(saved):
    path, good = saved
    before = path.stat()
    verdict = everybit.repair(path, write=True)
    assert verdict.ok
    assert path.read_bytes() == good
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_flip_that_stands_out_is_put_back(saved):
    path, good = saved
    makers.flip(path, place(path) + 4 * 77 + 3, 6)
    path.chmod(0o640)
    damaged = path.stat()
    dry = everybit.repair(path)
    assert dry.exit_code() == 1
    (finding,) = dry.findings
    assert finding.rule == "FIL108"
    assert finding.where.tensor == "layers.0.weight"
    assert finding.evidence["repair_certainty"] == "strong"
    assert "stands out" in finding.evidence["witnesses"][0]
    assert "--write" in finding.remedy
    assert path.read_bytes() != good
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert [str(f.severity) for f in verdict.findings] == ["note"]
    assert path.read_bytes() == good
    now = path.stat()
    assert (now.st_mode, now.st_mtime_ns) == (damaged.st_mode, damaged.st_mtime_ns)
    assert [each.name for each in path.parent.iterdir()] == ["model.pt"]


def test_a_flip_without_a_witness_is_put_back_only_when_asked(saved):
    path, good = saved
    makers.flip(path, place(path) + 4 * 77, 3)
    damaged = path.read_bytes()
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 1
    assert "--accept-weak" in verdict.findings[0].message
    assert path.read_bytes() == damaged
    verdict = everybit.repair(path, write=True, accept_weak=True)
    assert verdict.exit_code() == 0
    assert verdict.findings[0].evidence["repair_certainty"] == "weak"
    assert path.read_bytes() == good


def test_every_single_flip_in_the_data_is_located(saved):
    path, good = saved
    rng = random.Random(0)
    inside = [m for m in members(path).values() if m.size]
    for _ in range(40):
        member = rng.choice(inside)
        makers.flip(path, rng.randrange(member.start, member.end), rng.randrange(8))
        assert everybit.repair(path, write=True, accept_weak=True).exit_code() == 0
        assert path.read_bytes() == good


@pytest.mark.parametrize("kind", ["two bits", "many bits", "page of zeros", "noise", "run"])
def test_wider_damage_is_never_mended_into_something_else(saved, kind):
    path, good = saved
    rng = random.Random(kind)
    start, end = place(path), place(path) + 4 * 64 * 300
    for _ in range(12):
        data = bytearray(good)
        if kind in ("two bits", "many bits"):
            for _ in range(2 if kind == "two bits" else rng.randint(3, 200)):
                data[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
        else:
            at = rng.randrange(start, end - 8192)
            length = {"page of zeros": 4096, "noise": 512, "run": 5}[kind]
            data[at : at + length] = bytes(length) if "zeros" in kind else rng.randbytes(length)
        path.write_bytes(data)
        assert everybit.repair(path, write=True).exit_code() == 1
        assert path.read_bytes() == data


def _mimicked(path, data, rng):
    """Damage one word so that one flip elsewhere explains the checksum."""
    member = members(path)["data/0"]
    content = data[member.start : member.end]
    word = rng.randrange(member.size // 4) * 4
    flipped = bytearray(content)
    flipped[rng.randrange(member.size)] ^= 1 << rng.randrange(8)
    wanted = zlib.crc32(content) ^ zlib.crc32(flipped)
    mask = next(m for offset, m in crc32.bursts(wanted, member.size) if offset == word)
    at = member.start + word
    damaged = bytearray(data)
    held = int.from_bytes(damaged[at : at + 4], "little") ^ mask
    damaged[at : at + 4] = held.to_bytes(4, "little")
    return bytes(damaged)


def test_damage_made_to_look_like_one_flip_is_not_believed(saved):
    path, good = saved
    rng = random.Random(5)
    mended = 0
    for _ in range(25):
        damaged = _mimicked(path, good, rng)
        path.write_bytes(damaged)
        verdict = everybit.repair(path, write=True)
        mended += path.read_bytes() != damaged
        assert verdict.findings[0].evidence["explained_by"] == "one flipped bit"
        path.write_bytes(good)
    assert mended == 0


def test_a_neighbouring_checkpoint_is_a_witness(tmp_path):
    weights = model(sizes=((200, 300),))
    for step in (100, 200):
        folder = tmp_path / f"step_{step}"
        folder.mkdir()
        makers.save(weights, folder / "model.pt")
        weights = {name: value + 1e-5 * torch.randn(value.shape) for name, value in weights.items()}
    path = tmp_path / "step_200" / "model.pt"
    good = path.read_bytes()
    # Bit 21 of a value near 0.02 moves it by a few parts in ten: usual for the tensor, not here.
    makers.flip(path, place(path) + 4 * 123 + 2, 5)
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert "step_100/model.pt" in verdict.findings[0].evidence["witnesses"][0]
    assert path.read_bytes() == good
    shutil.rmtree(tmp_path / "step_100")
    makers.flip(path, place(path) + 4 * 123 + 2, 5)
    assert everybit.repair(path, write=True).exit_code() == 1


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn, torch.int64]
)
def test_other_dtypes_have_witnesses_too(tmp_path, dtype):
    value = torch.randn(200, 100) * (1000 if dtype is torch.int64 else 0.5)
    path = makers.save({"w": value.to(dtype)}, tmp_path / "m.pt")
    good = path.read_bytes()
    size = value.to(dtype).element_size()
    most = 2000 if dtype is torch.int64 else 1
    big = next(i for i, x in enumerate(value.flatten().tolist()) if 0.4 < abs(x) / most < 0.49)
    top = {torch.float8_e4m3fn: 5}.get(dtype, 6)
    makers.flip(path, place(path, "w") + size * big + size - 1, top)
    verdict = everybit.repair(path, write=True, accept_weak=dtype is torch.float8_e4m3fn)
    assert verdict.exit_code() == 0, verdict.findings
    assert path.read_bytes() == good


def test_a_flip_in_the_pickle_is_put_back_where_it_reads_again(tmp_path):
    names = {f"transformer.layers.{i}.attention.weight": torch.zeros(2) + i for i in range(200)}
    path = makers.save(names, tmp_path / "m.pt")
    good = path.read_bytes()
    record = members(path)["data.pkl"]
    assert record.size > 6000
    at = good.index(b"layers.150.attention.weight")
    makers.flip(path, at + 13, 1)
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert any("names" in text for text in verdict.findings[0].evidence["witnesses"])
    assert path.read_bytes() == good
    makers.flip(path, record.end - 1, 0)
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert any("reads and places" in text for text in verdict.findings[0].evidence["witnesses"])
    assert path.read_bytes() == good


def test_flips_in_the_records_are_put_back_from_their_twins(saved):
    path, good = saved
    member = members(path)["data/1"]
    directory = good.index(b"PK\x01\x02")
    entry = good.index(b"PK\x01\x02", good.index(b"model/data/1", directory) - 60)
    places = {
        "descriptor's checksum": (member.end + 5, 2),
        "descriptor's size": (member.end + 13, 4),
        "local name": (member.header_offset + 30 + 7, 1),
        "local mark": (member.header_offset + 1, 3),
        "local flags": (member.header_offset + 6, 6),
        "local method": (member.header_offset + 8, 1),
        "padding": (member.start - 3, 4),
        "central checksum": (entry + 17, 5),
        "central name": (entry + 46 + 7, 1),
        "central mark": (entry + 1, 3),
        "central size": (entry + 20, 4),
        "central offset": (entry + 42, 6),
        "end record's mark": (len(good) - 21, 2),
        "end record's directory": (len(good) - 6, 2),
        "first mark": (1, 4),
    }
    left = []
    for name, (offset, bit) in places.items():
        makers.flip(path, offset, bit)
        verdict = everybit.repair(path, write=True)
        if path.read_bytes() != good or verdict.exit_code():
            left.append((name, verdict.exit_code(), [f.message for f in verdict.findings]))
        path.write_bytes(good)
    assert not left


def test_several_members_with_one_flip_each(saved):
    path, good = saved
    for name in ("layers.0.weight", "layers.2.weight"):
        makers.flip(path, place(path, name) + 4 * 11 + 3, 6)
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert len(verdict.findings) == 2
    assert path.read_bytes() == good


def test_what_can_be_mended_is_and_the_rest_is_named(saved):
    path, good = saved
    makers.flip(path, place(path) + 4 * 11 + 3, 6)
    makers.overwrite(path, place(path, "layers.2.weight") + 100, b"a long run of other bytes")
    damaged = path.read_bytes()
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 1
    assert sorted(str(f.severity) for f in verdict.findings) == ["error", "note"]
    at = place(path) + 4 * 11 + 3
    assert path.read_bytes()[at] == good[at]
    assert path.with_name("model.pt.damaged").read_bytes() == damaged
    assert everybit.verify(path.parent).findings[0].where.path == "model.pt"


def test_without_checksums_nothing_is_claimed(tmp_path, without_checksums):
    path = makers.save(model(), tmp_path / "m.pt")
    makers.flip(path, place(path) + 7, 6)
    verdict = everybit.repair(path, write=True, accept_weak=True)
    assert verdict.exit_code() == 3
    assert "seal" in verdict.coverage.skipped[0].why


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"text"]
)
def test_odd_files(tmp_path, content):
    path = tmp_path / "m.pt"
    path.write_bytes(content)
    verdict = everybit.repair(path, write=True, accept_weak=True)
    assert verdict.exit_code() in (1, 3)
    assert path.read_bytes() == content


def test_random_damage_of_records_never_raises(saved):
    path, good = saved
    rng = random.Random(3)
    for _ in range(6):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            at = rng.choice([rng.randrange(len(data)), len(data) - 1 - rng.randrange(900)])
            data[at] = rng.randrange(256)
        path.write_bytes(data)
        everybit.repair(path)
        assert path.read_bytes() == data


def test_entries_of_distributed_checkpoints_are_archives_of_their_own(tmp_path):
    import torch.distributed.checkpoint as dcp

    folder = tmp_path / "alone" / "dcp"
    dcp.save({f"w{i}": torch.randn(60, 100) for i in range(3)}, checkpoint_id=str(folder))
    path = next(folder.glob("*.distcp"))
    good = path.read_bytes()
    with ByteSource(path) as source:
        structure = read_structure(source)
    tensor = structure.tensors[1]
    member = next(m for m in structure.members if m.start <= tensor.start < m.end)
    makers.flip(path, tensor.start + 4 * 33 + 3, 6)
    verdict = everybit.repair(path, write=True)
    assert verdict.exit_code() == 0
    assert verdict.findings[0].where.tensor == tensor.name
    assert path.read_bytes() == good
    for offset in (member.end + 6, good.index(b"PK\x01\x02", member.end) + 17):
        makers.flip(path, offset, 2)
        assert everybit.repair(path, write=True).exit_code() == 0
        assert path.read_bytes() == good
