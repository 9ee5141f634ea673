"""Other copies, damaged elsewhere: what they prove, and what they cannot."""

from __future__ import annotations

import random
import shutil

import pytest
import torch
from safetensors.torch import save_file
from tests.files import makers
from tests.files.parity import losses

import everybit
from everybit.core.errors import PathError
from everybit.files.seals.manifest import MANIFEST_NAME

LEAF = losses.LEAF


@pytest.fixture
def pair(tmp_path):
    """A sealed folder and its copy."""
    folder, copy = tmp_path / "run", tmp_path / "copy"
    folder.mkdir()
    held = losses.fill(folder)
    everybit.seal(folder)
    shutil.copytree(folder, copy)
    return folder, copy, held


def test_a_sealed_folder_from_a_copy_damaged_elsewhere(pair):
    folder, copy, held = pair
    for inner in (0, 2):
        losses.change(folder / "g.dat", inner * LEAF, bytes(LEAF))
        losses.change(copy / "g.dat", (inner + 1) * LEAF, bytes(LEAF))
    (folder / "b/c.dat").unlink()
    (copy / "a.dat").unlink()
    dry = everybit.repair(folder, copy=copy)
    assert dry.exit_code() == 1
    assert all("Can be put back" in finding.message for finding in dry.findings)
    assert everybit.repair(folder, copy=copy, write=True).exit_code() == 0
    assert losses.content(folder) == held
    assert everybit.repair(copy, copy=folder, write=True).exit_code() == 0
    assert losses.content(copy) == held


def test_a_leaf_that_both_copies_lost_is_named(pair):
    folder, copy, held = pair
    for side in pair[:2]:
        losses.change(side / "g.dat", 3 * LEAF, bytes(LEAF))
    losses.change(folder / "g.dat", 5 * LEAF, bytes(LEAF))
    verdict = everybit.repair(folder, copy=copy, write=True)
    assert verdict.exit_code() == 1
    assert "no copy holds them" in verdict.findings[0].message
    now = (folder / "g.dat").read_bytes()
    assert now[5 * LEAF : 6 * LEAF] == held["g.dat"][5 * LEAF : 6 * LEAF]
    assert now[3 * LEAF : 4 * LEAF] == bytes(LEAF)


def test_the_manifest_of_either_side_proves(pair):
    folder, copy, held = pair
    (folder / MANIFEST_NAME).unlink()
    losses.change(folder / "a.dat", 9, b"a run of other bytes")
    assert everybit.repair(folder / "a.dat", copy=copy / "a.dat", write=True).exit_code() == 0
    losses.change(folder / "a.dat", 9, b"a run of other bytes")
    assert everybit.repair(folder, copy=copy, write=True).exit_code() == 0
    assert losses.content(folder) == held
    assert not (folder / MANIFEST_NAME).exists()


def test_one_file_from_one_copy(pair):
    folder, copy, held = pair
    for target, other in ((folder / "e.dat", copy / "e.dat"), (folder / "e.dat", copy)):
        losses.change(target, 9, b"a run of other bytes")
        assert everybit.repair(target, copy=other, write=True).exit_code() == 0
        target.unlink()
        assert everybit.repair(target, copy=other, write=True).exit_code() == 0
        assert losses.content(folder) == held
    path = folder / "b/größe.dat"
    losses.change(path, LEAF, bytes(LEAF))
    assert everybit.repair(path, copy=copy / "b/größe.dat", write=True).exit_code() == 0
    assert losses.content(folder) == held


def test_a_damaged_manifest_comes_from_the_copy(pair):
    folder, copy, held = pair
    good = (folder / MANIFEST_NAME).read_bytes()
    losses.change(folder / MANIFEST_NAME, 300, b"#")
    losses.change(folder / "h.txt", 3, b"#")
    verdict = everybit.repair(folder, copy=copy, write=True)
    assert verdict.exit_code() == 0
    assert {f.rule for f in verdict.findings} == {"FIL110", "FIL101"}
    assert (folder / MANIFEST_NAME).read_bytes() == good
    assert losses.content(folder) == held


def test_a_model_written_anew_is_not_rolled_back(tmp_path):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    folder.mkdir()
    save_file({"w": torch.randn(300, 300)}, folder / "m.safetensors")
    everybit.seal(folder)
    shutil.copytree(folder, copy)
    save_file({"w": torch.randn(300, 300)}, folder / "m.safetensors")
    trained = (folder / "m.safetensors").read_bytes()
    verdict = everybit.repair(folder, copy=copy, write=True)
    assert verdict.exit_code() == 1
    assert "written anew" in verdict.findings[0].message
    assert (folder / "m.safetensors").read_bytes() == trained


def test_a_text_that_was_edited_is_kept(pair):
    folder, copy, held = pair
    (folder / "h.txt").write_bytes(b"edited on purpose")
    assert everybit.repair(folder, copy=copy, write=True).exit_code() == 0
    assert losses.content(folder) == held
    assert (folder / "h.txt.damaged").read_bytes() == b"edited on purpose"
    assert everybit.verify(folder).exit_code() == 0


def test_members_of_archives_are_proved_by_their_checksums(tmp_path):
    weights = {f"w{i}": torch.randn(100, 100) for i in range(3)}
    path, copy = tmp_path / "a/m.pt", tmp_path / "b/m.pt"
    path.parent.mkdir()
    copy.parent.mkdir()
    makers.save(weights, path)
    good = path.read_bytes()
    starts = {t.name: t.start for t in everybit_tensors(path)}
    for start, side in ((starts["w0"], path), (starts["w1"], copy)):
        data = bytearray(good)
        data[start + 1000 : start + 3000] = random.Random(1).randbytes(2000)
        side.write_bytes(data)
    verdict = everybit.repair(path, copy=copy, write=True)
    assert verdict.exit_code() == 0
    assert verdict.findings[0].evidence["repair_certainty"] == "strong"
    assert path.read_bytes() == good
    # The other way round, and both at once in the same member: nothing is right then.
    assert everybit.repair(copy, copy=path, write=True).exit_code() == 0
    assert copy.read_bytes() == good
    for side in (path, copy):
        makers.overwrite(side, starts["w2"] + 64, b"both are wrong here, alas")
    assert everybit.repair(path, copy=copy, write=True).exit_code() == 1


def everybit_tensors(path):
    from everybit.files.reading import read_tensors

    return read_tensors(path, digests=False).tensors


@pytest.mark.parametrize("damage", ["cut", "header", "empty"])
@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_an_unreadable_file_from_a_copy_that_is_whole(tmp_path, kind, damage):
    path, copy = tmp_path / "a" / f"m.{kind}", tmp_path / "b" / f"m.{kind}"
    for place in (path, copy):
        place.parent.mkdir()
    weights = {f"w{i}": torch.randn(200, 100) for i in range(4)}
    makers.save(weights, path) if kind == "pt" else save_file(weights, path)
    good = path.read_bytes()
    copy.write_bytes(good)
    if damage == "header":
        makers.overwrite(path, 3, b"\xff\xfe\xfd\xfc\xff\xff")
    else:
        path.write_bytes(good[:-70_000] if damage == "cut" else b"")
    verdict = everybit.repair(path, copy=copy, write=True)
    assert verdict.exit_code() == 0, verdict
    assert path.read_bytes() == good


def test_another_model_is_no_copy(tmp_path):
    path, copy = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_file({"w": torch.randn(200, 200)}, path)
    save_file({"w": torch.randn(200, 200)}, copy)
    data = path.read_bytes()[:-100]
    path.write_bytes(data)
    assert everybit.repair(path, copy=copy, write=True).exit_code() == 1
    assert path.read_bytes() == data


@pytest.fixture
def three(tmp_path):
    paths = [tmp_path / f"{name}.safetensors" for name in "abc"]
    save_file({"w": torch.randn(300, 200)}, paths[0])
    for other in paths[1:]:
        shutil.copy(paths[0], other)
    return paths, paths[0].read_bytes()


def test_of_two_copies_without_checksums_none_is_believed(three):
    (path, copy, _), good = three
    verdict = everybit.repair(path, copy=copy)
    assert verdict.exit_code() == 0
    assert verdict.ok
    makers.flip(path, len(good) - 77, 4)
    damaged = path.read_bytes()
    verdict = everybit.repair(path, copy=copy, write=True)
    assert verdict.exit_code() == 3
    assert "which is right" in verdict.coverage.skipped[0].why
    assert "byte" in verdict.coverage.skipped[0].why
    assert path.read_bytes() == damaged


def test_of_three_copies_two_that_agree_decide(three):
    (path, copy, third), good = three
    makers.flip(path, len(good) - 77, 4)
    makers.flip(copy, LEAF + 9, 4)
    verdict = everybit.repair(path, copy=[copy, third], write=True)
    assert verdict.exit_code() == 0
    assert verdict.findings[0].evidence["repair_certainty"] == "strong"
    assert path.read_bytes() == good
    for side, bit in ((path, 1), (copy, 2), (third, 3)):
        makers.flip(side, LEAF + 500, bit)
    verdict = everybit.repair(path, copy=[copy, third], write=True)
    assert verdict.exit_code() == 3
    assert "which is right" in verdict.coverage.skipped[0].why


def test_copies_that_are_none(pair, tmp_path):
    folder = pair[0]
    with pytest.raises(PathError, match="does not exist"):
        everybit.repair(folder, copy=tmp_path / "nowhere")
    losses.change(folder / "e.dat", 9, b"a run of other bytes")
    assert everybit.repair(folder / "e.dat", copy=folder / "e.dat").exit_code() == 1
    (tmp_path / "empty").mkdir()
    assert everybit.repair(folder, copy=tmp_path / "empty").exit_code() == 1
