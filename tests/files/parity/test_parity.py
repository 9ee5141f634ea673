"""Parity: what its guarantee promises is restored bit for bit; beyond it the truth is told."""

from __future__ import annotations

import random
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.parity import losses

import everybit
from everybit.core.errors import PathError, UsageError
from everybit.files.damage import MalformedError
from everybit.files.parity.container import ENVELOPE, read_index
from everybit.files.parity.layout import Code, choose_layout, parse_redundancy
from everybit.files.parity.record import PARITY_NAME, ParityRecord
from everybit.files.parity.writing import write_parity
from everybit.files.seals.manifest import MANIFEST_NAME, load_manifest
from everybit.files.source import ByteSource

LEAF = losses.LEAF
CODES = [
    ("10%", None),
    ("25%", "xor"),
    ("100%", None),
    ("10%", "rs"),
    ("40%", "rs"),
    ("150%", None),
]


def promised_run(guarantee: str) -> int | None:
    """How many contiguous bytes the printed sentence promises; None for everything."""
    if "however much" in guarantee:
        return None
    return int(re.search(r"up to ([\d,]+) bytes anywhere", guarantee)[1].replace(",", ""))


def sealed(folder, parity, code=None):
    """Seal a new folder and return what it holds, and the guarantee."""
    held = losses.fill(folder)
    everybit.seal(folder, parity=parity, parity_code=code)
    manifest = load_manifest(folder)
    with ByteSource(folder / PARITY_NAME) as source:
        index = read_index(source)
    record = ParityRecord(
        id=index.id, size_bytes=manifest.parity["size_bytes"], layout=index.layout
    )
    assert record.encode() == manifest.parity
    return held, record


@pytest.mark.parametrize(("parity", "code"), CODES)
def test_losses_within_the_guarantee_are_restored(tmp_path, parity, code):
    held, record = sealed(tmp_path, parity, code)
    promised = promised_run(record.guarantee())
    for seed in range(3):
        rng = random.Random(seed)
        told = losses.lose_run(tmp_path, held, rng, promised or 1 << 30)
        verdict = everybit.repair(tmp_path, write=True)
        assert verdict.exit_code() == 0, (told, verdict.findings)
        assert losses.content(tmp_path) == held, told
        assert everybit.verify(tmp_path).exit_code() == 0


@pytest.mark.parametrize(("parity", "code"), [("10%", None), ("20%", "rs")])
def test_scattered_damage_within_the_guarantee_is_restored(tmp_path, parity, code):
    held, record = sealed(tmp_path, parity, code)
    for seed in range(1):
        rng = random.Random(seed)
        places = [
            (name, inner) for name, data in held.items() for inner in range(-(-len(data) // LEAF))
        ]
        for name, inner in rng.sample(places, record.layout.parity_per_stripe):
            data = held[name][inner * LEAF : (inner + 1) * LEAF]
            losses.change(tmp_path / name, inner * LEAF, bytes(255 - byte for byte in data))
        assert everybit.repair(tmp_path, write=True).exit_code() == 0
        assert losses.content(tmp_path) == held


@pytest.mark.parametrize(("parity", "code"), [("30%", None), ("30%", "rs"), ("70%", None)])
def test_missing_files_that_the_guarantee_names_are_restored(tmp_path, parity, code):
    held, record = sealed(tmp_path, parity, code)
    run = record.layout.contiguous_leaves
    for name, data in held.items():
        within = -(-len(data) // LEAF) <= run
        (tmp_path / name).unlink()
        verdict = everybit.repair(tmp_path, write=True)
        assert verdict.exit_code() == (0 if within else 1), name
        assert (tmp_path / name).exists() == within
        if within:
            assert (tmp_path / name).read_bytes() == data
        (tmp_path / name).write_bytes(data)
    largest = max(map(len, held.values()))
    says_all = "any one missing file" in record.guarantee()
    assert says_all == (-(-largest // LEAF) <= run)


def test_beyond_the_guarantee_what_decodes_is_restored_and_the_rest_is_named(tmp_path):
    held, record = sealed(tmp_path, "10%")
    stripes = record.layout.stripes
    data = bytearray(held["g.dat"])
    # Two leaves of one stripe, and one of another.
    for inner in (0, stripes, 1):
        data[inner * LEAF : (inner + 1) * LEAF] = bytes(LEAF)
    (tmp_path / "g.dat").write_bytes(data)
    verdict = everybit.repair(tmp_path)
    assert verdict.exit_code() == 1
    assert (tmp_path / "g.dat").read_bytes() == data
    verdict = everybit.repair(tmp_path, write=True)
    assert verdict.exit_code() == 1
    left = (tmp_path / "g.dat").read_bytes()
    wrong = {
        at // LEAF
        for at in range(0, len(left), LEAF)
        if left[at : at + LEAF] != held["g.dat"][at : at + LEAF]
    }
    assert wrong == {0, stripes}
    assert "2 of its 23 leaves" in verdict.findings[0].message
    assert (tmp_path / "g.dat.damaged").read_bytes() == data


def test_damaged_parity_is_known_and_never_used(tmp_path):
    held, record = sealed(tmp_path, "10%")
    with ByteSource(tmp_path / PARITY_NAME) as source:
        index = read_index(source)
    losses.change(tmp_path / PARITY_NAME, index.block_start(0) + 5, b"\xff\x00\xff")
    found = everybit.verify(tmp_path)
    assert [(f.rule, f.where.path, str(f.severity)) for f in found.findings] == [
        ("FIL101", PARITY_NAME, "warning")
    ]
    firsts = record.layout.first_leaves[1:]
    last_of = {
        (end - 1) % record.layout.stripes: name
        for (name, size), end in zip(record.layout.files, firsts, strict=True)
        if size > 100
    }
    other = next(stripe for stripe in last_of if stripe)
    for stripe, restored in ((0, False), (other, True)):
        name = last_of[stripe]
        (tmp_path / name).write_bytes(held[name][:-50])
        verdict = everybit.repair(tmp_path, write=True)
        assert ((tmp_path / name).read_bytes() == held[name]) == restored
        assert verdict.exit_code() == (0 if restored else 1)
        (tmp_path / name).write_bytes(held[name])


@pytest.mark.parametrize("where", ["front", "back", "front page", "cut"])
def test_one_copy_of_the_index_is_enough(tmp_path, where):
    held, _ = sealed(tmp_path, "30%")
    path = tmp_path / PARITY_NAME
    good = path.read_bytes()
    size = len(good)
    if where == "cut":
        path.write_bytes(path.read_bytes()[: size - 100])
    else:
        at = {"front": 20, "back": size - 3, "front page": 0}[where]
        losses.change(path, at, bytes(4096) if where == "front page" else b"\xa5")
    (tmp_path / "a.dat").unlink()
    assert everybit.repair(tmp_path, write=True).exit_code() == 0
    assert (tmp_path / "a.dat").read_bytes() == held["a.dat"]
    assert path.read_bytes() == good
    assert everybit.verify(tmp_path).ok


@pytest.mark.parametrize("code", ["xor", "rs"])
def test_damaged_parity_is_computed_anew_from_whole_files(tmp_path, code):
    sealed(tmp_path, "20%", code)
    path = tmp_path / PARITY_NAME
    good = path.read_bytes()
    rng = random.Random(1)
    for _ in range(6):
        losses.change(path, rng.randrange(len(good) - 9000), rng.randbytes(rng.randint(1, 9000)))
    dry = everybit.repair(tmp_path)
    assert dry.exit_code() == 0
    assert [str(finding.severity) for finding in dry.findings] == ["warning"]
    assert everybit.repair(tmp_path, write=True).exit_code() == 0
    assert path.read_bytes() == good


@pytest.mark.parametrize("damage", ["flipped", "gone", "empty", "and a file"])
def test_the_manifest_is_restored_bit_for_bit(tmp_path, damage):
    held, _ = sealed(tmp_path, "30%")
    path = tmp_path / MANIFEST_NAME
    good = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        losses.change(path, len(good) // 2, b"!")
    if damage == "and a file":
        losses.change(tmp_path / "e.dat", 100, b"a run of other bytes")
    verdict = everybit.repair(tmp_path, write=True)
    assert verdict.exit_code() == 0
    assert path.read_bytes() == good
    assert losses.content(tmp_path) == held


def test_a_file_sealed_anew_is_not_rolled_back_by_old_parity(tmp_path):
    sealed(tmp_path, "30%")
    (tmp_path / "a.dat").write_bytes(b"new" * 30_000)
    everybit.seal(tmp_path / "a.dat")
    assert [f.where.path for f in everybit.verify(tmp_path).findings] == [PARITY_NAME]
    assert everybit.repair(tmp_path, write=True).exit_code() == 0
    assert (tmp_path / "a.dat").read_bytes() == b"new" * 30_000
    losses.change(tmp_path / "a.dat", 7, b"some other run of bytes")
    verdict = everybit.repair(tmp_path, write=True)
    assert verdict.exit_code() == 1
    assert "other bytes" in verdict.findings[0].message


def test_parity_is_neither_sealed_nor_unsealed(tmp_path):
    sealed(tmp_path, "10%")
    everybit.seal(tmp_path, parity="10%")
    assert PARITY_NAME not in load_manifest(tmp_path).files
    verdict = everybit.verify(tmp_path)
    assert verdict.ok
    assert {item.what for item in verdict.coverage.checked} >= {"parity blocks"}
    (tmp_path / PARITY_NAME).unlink()
    assert [(f.rule, str(f.severity)) for f in everybit.verify(tmp_path).findings] == [
        ("FIL103", "warning")
    ]


def test_a_file_that_changed_after_sealing_gives_no_parity(tmp_path):
    losses.fill(tmp_path)
    everybit.seal(tmp_path)
    losses.change(tmp_path / "g.dat", 10 * LEAF, b"x")
    with pytest.raises(PathError, match="changed after it was sealed"):
        write_parity(tmp_path, load_manifest(tmp_path), redundancy=0.1)
    assert sorted(path.name for path in tmp_path.iterdir() if "PARITY" in path.name) == []


def test_many_small_files_make_small_parity(tmp_path):
    held = losses.fill(tmp_path, {f"n{index:03}.json": index for index in range(300)})
    everybit.seal(tmp_path, parity="10%")
    assert (tmp_path / PARITY_NAME).stat().st_size < 400_000
    (tmp_path / "n123.json").unlink()
    (tmp_path / "n299.json").write_bytes(b"")
    assert everybit.repair(tmp_path, write=True).exit_code() == 0
    assert losses.content(tmp_path, held) == held


@pytest.mark.parametrize("sizes", [{"a": 0}, {"a": 0, "b": 0}, {"a": 1}, {"a": LEAF, "b": 1}])
def test_tiny_folders(tmp_path, sizes):
    held = losses.fill(tmp_path, sizes)
    everybit.seal(tmp_path, parity="5%")
    for name in sizes:
        (tmp_path / name).unlink()
        assert everybit.repair(tmp_path, write=True).exit_code() == 0
        assert losses.content(tmp_path, held) == held


@given(
    st.lists(st.integers(0, 40 * LEAF), max_size=12), st.floats(0.0001, 2), st.sampled_from(Code)
)
@settings(max_examples=200, deadline=None)
def test_layouts_bear_what_they_promise(sizes, redundancy, code):
    files = [(f"f{index}", size) for index, size in enumerate(sizes)]
    try:
        layout = choose_layout(files, redundancy, code)
    except UsageError:
        assert redundancy > 1 or (code is Code.REED_SOLOMON and redundancy < 0.08)
        return
    total = layout.num_leaves
    assert layout.stripes * layout.data_per_stripe >= total
    if code is Code.REED_SOLOMON and total:
        assert layout.data_per_stripe + layout.parity_per_stripe <= 32
    spent = layout.num_blocks / total if total else 0
    assert spent >= min(redundancy, 1) - 1e-9 or not total
    run = layout.contiguous_leaves
    for first in range(0, max(1, total - run + 1), max(1, total // 10)):
        lost = [leaf % layout.stripes for leaf in range(first, min(first + run, total))]
        assert all(lost.count(s) <= layout.parity_per_stripe for s in set(lost))
    for leaf in range(total):
        index, inner = layout.file_of(leaf)
        assert 0 < layout.leaf_bytes(leaf) <= min(LEAF, layout.block_bytes)
        assert inner * LEAF < files[index][1] or sorted(files)[index][1] > inner * LEAF


def test_redundancy_is_read_as_people_write_it():
    assert parse_redundancy("5%") == parse_redundancy("0.05") == parse_redundancy(0.05) == 0.05
    assert parse_redundancy("150%") == 1.5
    for text in ("5", "much", "-5%", "0", "900%", "nan", "inf%", ""):
        with pytest.raises(UsageError):
            parse_redundancy(text)


@pytest.mark.parametrize("seed", range(24))
def test_hostile_parity_files(tmp_path, seed):
    held, _ = sealed(tmp_path, "10%", "rs" if seed % 2 else None)
    path = tmp_path / PARITY_NAME
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 40)):
        at = rng.choice(
            [rng.randrange(200), rng.randrange(len(data)), len(data) - 1 - rng.randrange(200)]
        )
        data[at] = rng.randrange(256)
    path.write_bytes(data[: rng.randrange(len(data))] if seed % 5 == 0 else data)
    (tmp_path / "a.dat").write_bytes(held["a.dat"][: 3 * LEAF])
    everybit.verify(tmp_path)
    everybit.repair(tmp_path, write=True)
    now = (tmp_path / "a.dat").read_bytes()
    for at in range(0, len(held["a.dat"]), LEAF):
        assert now[at : at + LEAF] in (held["a.dat"][at : at + LEAF], b"", bytes(LEAF), bytes(17))


@pytest.mark.parametrize(
    "field",
    ["stripes", "data_per_stripe", "parity_per_stripe", "block_bytes", "manifest_bytes", "code"],
)
@pytest.mark.parametrize("value", [0, 1, 33, 1 << 50, -1, "x", None, 2.5])
def test_an_index_that_lies_is_refused(tmp_path, field, value):
    import json

    import xxhash

    sealed(tmp_path, "10%")
    path = tmp_path / PARITY_NAME
    raw = path.read_bytes()
    _, length, _ = ENVELOPE.unpack_from(raw)
    index = raw[ENVELOPE.size : ENVELOPE.size + length]
    (size,) = struct.unpack_from("<I", index)
    head = json.loads(index[4 : 4 + size])
    if head[field] == value:
        pytest.skip("that is the truth")
    head[field] = value
    text = json.dumps(head).encode()
    lying = struct.pack("<I", len(text)) + text + index[4 + size :]
    front = ENVELOPE.pack(raw[:16], len(lying), xxhash.xxh3_128_digest(lying))
    path.write_bytes(front + lying)
    with ByteSource(path) as source, pytest.raises(MalformedError):
        read_index(source)
    everybit.repair(tmp_path)
