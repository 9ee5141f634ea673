"""Foreign bytes: no exception but everybit's own, no hang, no memory without bound."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import time
import tracemalloc
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from tests.files import makers

import everybit
from everybit.core.errors import EverybitError, PathError
from everybit.core.verdict import Status
from everybit.files import read_tensor_bytes, read_tensors
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.pickles import opcodes as pickle_opcodes
from everybit.files.seals import localize
from everybit.files.seals.manifest import MANIFEST_NAME, load_manifest
from everybit.files.seals.sealed import check_sealed
from everybit.files.source import ByteSource

SECONDS = 5


@pytest.fixture
def quick(monkeypatch):
    """Leave out the search for damaged words, which takes most of the time."""
    monkeypatch.setattr(localize, "_MAX_SEARCHED", 0)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes as disks, copies, bugs and attackers do."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(9)
        if kind <= 2 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            out[at : at + rng.randrange(1, 600)] = bytes(rng.randrange(1, 600))
        elif kind == 4:
            out[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 0xFFFF, 0xFFFFFFFF, 1 << 31)))
        elif kind == 5:
            out[at : at + 8] = struct.pack("<Q", rng.choice((1 << 63, (1 << 64) - 1, 1 << 40, 7)))
        elif kind == 6:
            del out[at : at + rng.randrange(1, 900)]
        elif kind == 7:
            piece = out[at : at + rng.randrange(1, 300)]
            place = rng.randrange(len(out) + 1)
            out[place:place] = piece
        else:
            del out[rng.randrange(len(out) + 1) :]
    return bytes(out)


def targets(folder):
    torch_file = makers.save(makers.weights(), folder / "m.pt")
    safe = folder / "m.safetensors"
    save_file({"a": torch.randn(50, 40), "b": torch.ones(9), "c": torch.arange(5)}, safe)
    everybit.seal(folder)
    return torch_file, safe


def try_everything(path, sealed):
    """Read a file in all ways; return whether anything was found or not checked."""
    with ByteSource(path) as source:
        seen = check_unsealed(source, path.name)
        against = check_sealed(source, sealed, path.name, strong=True)
    for finding in (*seen.findings, *against.findings):
        json.dumps(finding.to_json())
    with contextlib.suppress(EverybitError):
        for tensor in read_tensors(path).tensors:
            if tensor.num_bytes < 1 << 26 and not tensor.unreadable:
                read_tensor_bytes(path, tensor, 0, 4096)
    return bool(against.findings or against.skipped)


@pytest.mark.parametrize("which", [0, 1])
def test_mutated_files_are_found_and_raise_nothing_else(tmp_path, which, quick):
    path = targets(tmp_path)[which]
    sealed = load_manifest(tmp_path).files[path.name]
    clean = path.read_bytes()
    rng = random.Random(which)
    for _ in range(150):
        damaged = mutate(clean, rng)
        path.write_bytes(damaged)
        began = time.perf_counter()
        assert try_everything(path, sealed) == (damaged != clean)
        assert time.perf_counter() - began < SECONDS


def test_mutated_headers_and_pickles_alone(tmp_path, quick):
    # All damage where the structure is: the front of both formats, and the archive's directory.
    for path in targets(tmp_path):
        sealed = load_manifest(tmp_path).files[path.name]
        clean = path.read_bytes()
        rng = random.Random(7)
        for _ in range(150):
            head = mutate(clean[:2500], rng)
            tail = clean[2500:] if rng.random() < 0.5 else mutate(clean[2500:], rng)
            path.write_bytes(head + tail)
            began = time.perf_counter()
            try_everything(path, sealed)
            assert time.perf_counter() - began < SECONDS


def test_mutated_pickles_in_archives_whose_checksums_hold(tmp_path):
    path = makers.save(makers.weights(), tmp_path / "m.pt")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    rng = random.Random(3)
    for _ in range(200):
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                pickled = name.endswith("data.pkl")
                archive.writestr(name, mutate(data, rng) if pickled else data)
        verdict = everybit.verify(path)
        assert all(finding.rule == "FIL107" for finding in verdict.findings)
        with contextlib.suppress(EverybitError):
            everybit.seal(path)
        (tmp_path / MANIFEST_NAME).unlink(missing_ok=True)


def test_mutated_manifests(tmp_path):
    targets(tmp_path)
    path = tmp_path / MANIFEST_NAME
    clean = path.read_bytes()
    rng = random.Random(5)
    for _ in range(300):
        damaged = mutate(clean, rng)
        path.write_bytes(damaged)
        found = [finding.rule for finding in everybit.verify(tmp_path).findings]
        assert found == ([] if damaged == clean else ["FIL110"])


def test_nearly_every_flip_in_an_archive_is_seen_without_a_manifest(tmp_path):
    path = makers.save({"w": torch.randn(500), "b": torch.ones(60)}, tmp_path / "m.pt")
    clean = path.read_bytes()
    rng = random.Random(0)
    missed = 0
    for _ in range(400):
        damaged = bytearray(clean)
        damaged[rng.randrange(len(clean))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        missed += everybit.verify(path).status is Status.CLEAN
    # What is left: attributes and version bytes of directory entries, which nothing vouches for.
    assert missed <= 400 * 0.05


def archive_of(folder, pickle: bytes):
    path = folder / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", pickle)
        archive.writestr("m/byteorder", b"little")
        archive.writestr("m/data/0", b"\0" * 400)
    return path


def storage(count=100):
    return b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\0\0\0cpuM" + (
        struct.pack("<H", count) + b"tQ"
    )


def tensor(shape: bytes, stride: bytes, offset: bytes = b"K\x00"):
    head = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + offset
    return head + shape + stride + b"\x89ccollections\nOrderedDict\n)RtR"


@pytest.mark.parametrize(
    ("pickle", "told"),
    [
        (tensor(b"(I-1\nt", b"(K\x01t"), "negative"),
        (tensor(b"(K\x05t", b"(I-1\nt"), "negative"),
        (tensor(b"(K\x05t", b"(K\x01t", b"I-4\n"), "negative"),
        (tensor(b"(K\x05t", b"(K\x01K\x01t"), "1 sizes and 2 strides"),
        (tensor(b"(K\x65t", b"(K\x01t"), "ends at byte 404"),
        (tensor(b"(L9000000000000000000L\nt", b"(K\x00t"), "2\\^62"),
        (tensor(b"(" + b"K\x01" * 65 + b"t", b"(" + b"K\x01" * 65 + b"t"), "65 dimensions"),
    ],
)
def test_tensors_that_cannot_be(tmp_path, pickle, told):
    (finding,) = everybit.verify(archive_of(tmp_path, pickle + b".")).findings
    assert finding.rule == "FIL107"
    assert __import__("re").search(told, finding.message)


@pytest.mark.parametrize(
    "pickle",
    [
        tensor(b"(L99999999999999999999L\nt", b"(K\x01t"),
        tensor(b"K\x05", b"(K\x01t"),
        b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01tR",
        b"ctorch._utils\n_rebuild_tensor_v2\nK\x01R",
        b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x02K\x03K\x04tR",
        b"ctorch._utils\n_rebuild_tensor_v3\n(" + storage() + b"K\x00(t(tNNNtR",
        b"(X\x07\x00\x00\x00storagecmine\nOwnStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x05tQ",
        b"(X\x07\x00\x00\x00storageK\x01K\x02K\x03K\x04tQ",
    ],
)
def test_tensors_of_unknown_making_are_not_called_clean(tmp_path, pickle):
    verdict = everybit.verify(archive_of(tmp_path, pickle + b"."))
    assert verdict.status is not Status.CLEAN


def test_a_pickle_bomb_names_each_tensor_once_its_budget_is_spent(tmp_path):
    # 40 levels of dictionaries that hold the level below under ten keys: 10^40 paths.
    pickle = tensor(b"(K\x05t", b"(K\x01t") + b"q\x00"
    for _ in range(40):
        pickle += b"}(" + b"".join(b"K" + bytes([key]) + b"h\x00" for key in range(10)) + b"uq\x00"
    began = time.perf_counter()
    tracemalloc.start()
    verdict = everybit.verify(archive_of(tmp_path, pickle + b"."))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.perf_counter() - began < 4 * SECONDS
    assert peak < 300 << 20
    assert any("share each other" in item.why for item in verdict.coverage.skipped)


def test_deep_nesting_and_cycles(tmp_path):
    inner = tensor(b"(K\x05t", b"(K\x01t")
    deep = b"]" * 50_000 + inner + b"a" * 50_000 + b"."
    verdict = everybit.verify(archive_of(tmp_path, deep))
    assert any("deep" in item.why for item in verdict.coverage.skipped)
    cyclic = b"]q\x00(h\x00" + inner + b"e."
    (tensor_found,) = read_tensors(archive_of(tmp_path, cyclic)).tensors
    assert tensor_found.name == "1"


def test_long_keys_do_not_multiply(tmp_path):
    key = b"X" + struct.pack("<I", 500_000) + b"k" * 500_000
    inner = tensor(b"(K\x05t", b"(K\x01t") + b"q\x00"
    pickle = b"}" + key + b"(" + inner + b"h\x00" * 5000 + b"ls."
    tracemalloc.start()
    read_tensors(archive_of(tmp_path, pickle), digests=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


def test_many_overlapping_views_are_sealed_in_bounded_time(tmp_path):
    base = torch.zeros(200_000)
    path = makers.save([base[index:] for index in range(1500)], tmp_path / "m.pt")
    began = time.perf_counter()
    everybit.seal(path)
    assert time.perf_counter() - began < 4 * SECONDS
    assert everybit.verify(path).ok


def test_a_pickle_beyond_the_bounds_is_not_checked_and_not_damaged(tmp_path, monkeypatch):
    path = makers.save(makers.weights(), tmp_path / "m.pt")
    monkeypatch.setattr(pickle_opcodes, "MAX_STEPS", 50)
    verdict = everybit.verify(path)
    assert verdict.status is Status.INCONCLUSIVE
    assert "more than 50 opcodes" in verdict.coverage.skipped[0].why
    assert verdict.coverage.checked[0].what == "member checksums"
    with pytest.raises(PathError, match="too large"):
        read_tensors(path)
    everybit.seal(path)
    assert everybit.verify(path).ok
