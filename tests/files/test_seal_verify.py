from __future__ import annotations

import json
import math
import os
import random

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.files import makers

import everybit
from everybit.core.errors import DamagedError, PathError
from everybit.core.finding import Certainty, Severity
from everybit.core.tree import LEAF_BYTES
from everybit.core.verdict import Status
from everybit.files import read_tensors
from everybit.files.seals.manifest import MANIFEST_NAME


@pytest.fixture(params=["torch", "safetensors"])
def sealed(request, tmp_path):
    """A sealed file of either format."""
    folder = tmp_path / "run"
    folder.mkdir()
    torch.manual_seed(0)
    value = {"first": torch.randn(400, 300), "second": torch.randn(77).to(torch.bfloat16)}
    if request.param == "torch":
        path = makers.save(value, folder / "model.pt")
    else:
        path = folder / "model.safetensors"
        save_file(value, path)
    everybit.seal(folder)
    return path


def only_finding(*paths, **options):
    (finding,) = everybit.verify(*paths, **options).findings
    return finding


def place_of(path, name):
    return read_tensors(path, digests=False).by_name()[name].byte_ranges[0]


def test_sealed_and_untouched_is_clean(sealed):
    for target in (sealed, sealed.parent, sealed.parent / MANIFEST_NAME):
        for strong in (False, True):
            verdict = everybit.verify(target, strong=strong)
            assert verdict.status is Status.CLEAN
            assert verdict.stats["bytes"] == sealed.stat().st_size
    assert everybit.verify(sealed, level="structure").ok


def test_every_single_flip_is_proven_to_the_bit(sealed):
    rng = random.Random(0)
    clean = sealed.read_bytes()
    start, end = place_of(sealed, "first")
    for _ in range(40):
        offset, bit = rng.randrange(start, end), rng.randrange(8)
        makers.flip(sealed, offset, bit)
        finding = only_finding(sealed)
        element = (offset - start) // 4
        assert (finding.rule, finding.certainty) == ("FIL102", Certainty.PROOF)
        assert finding.where.tensor == "first"
        assert finding.where.byte_range == (offset, offset + 1)
        assert finding.where.elements == (element,)
        (change,) = finding.evidence["changes"]
        assert change["bits"] == [8 * ((offset - start) % 4) + bit]
        before = np.frombuffer(clean, "<f4", 1, start + 4 * element)[0]
        assert change["before"] == float(before)
        sealed.write_bytes(clean)


def test_flips_anywhere_in_the_file_are_one_finding_each_time(sealed):
    rng = random.Random(1)
    clean = sealed.read_bytes()
    spans = {name: place_of(sealed, name) for name in ("first", "second")}
    for offset in [*range(40), *rng.sample(range(len(clean)), 40), len(clean) - 1]:
        makers.flip(sealed, offset, rng.randrange(8))
        finding = only_finding(sealed)
        inside = [name for name, (start, end) in spans.items() if start <= offset < end]
        assert finding.rule == ("FIL102" if inside else "FIL101")
        assert finding.where.tensor == (inside[0] if inside else None)
        assert finding.where.byte_range == (offset, offset + 1)
        assert finding.severity is Severity.ERROR
        sealed.write_bytes(clean)


def test_a_damaged_word_is_proven_with_all_its_bits(sealed):
    start, _ = place_of(sealed, "first")
    offset = start + 4 * 5000
    makers.overwrite(sealed, offset, np.float32(math.inf).tobytes())
    finding = only_finding(sealed)
    assert finding.where.elements == (5000,)
    assert finding.evidence["changes"][0]["after"] == "Infinity"
    assert len(finding.evidence["changes"][0]["bits"]) > 1


def test_flips_in_several_leaves_are_each_proven_in_one_finding(sealed):
    start, _ = place_of(sealed, "first")
    for element in (3, 30_000, 90_000):
        makers.flip(sealed, start + 4 * element, 4)
    finding = only_finding(sealed)
    assert finding.where.elements == (3, 30_000, 90_000)
    assert finding.evidence["num_bits"] == 3


def test_larger_damage_is_named_by_its_leaves(sealed):
    start, end = place_of(sealed, "first")
    begin = (start // LEAF_BYTES + 1) * LEAF_BYTES
    makers.overwrite(sealed, begin + 100, bytes(5000))
    finding = only_finding(sealed)
    assert (finding.rule, finding.where.tensor) == ("FIL102", "first")
    assert finding.where.byte_range == (begin, begin + LEAF_BYTES)
    low, high = (begin - start) // 4, (begin - start + LEAF_BYTES) // 4
    assert finding.where.element_ranges == ((low, -(-(begin - start + LEAF_BYTES) // 4)),)
    assert high > low
    assert end > begin + LEAF_BYTES


def test_damage_beside_a_tensor_in_the_same_leaf_does_not_accuse_it(sealed):
    # Both tensors share the last leaf; only the small one is overwritten.
    start, end = place_of(sealed, "second")
    makers.overwrite(sealed, start + 20, bytes(100))
    finding = only_finding(sealed)
    assert finding.where.tensor == "second"
    assert finding.where.byte_range == (start, end)


def test_truncation_names_what_is_whole(sealed):
    data = sealed.read_bytes()
    names = sorted(("first", "second"), key=lambda name: place_of(sealed, name))
    start, _ = place_of(sealed, names[1])
    sealed.write_bytes(data[: start + 10])
    finding = only_finding(sealed)
    assert finding.rule == "FIL104"
    assert finding.evidence["readable"] == [names[0]]
    assert finding.evidence["expected_bytes"] == len(data)
    makers.flip(sealed, place_of_sealed(sealed, names[0]) + 8)
    rules = {finding.rule: finding for finding in everybit.verify(sealed).findings}
    assert set(rules) == {"FIL104", "FIL102"}
    assert rules["FIL104"].evidence["readable"] == []
    sealed.write_bytes(b"")
    assert only_finding(sealed).rule == "FIL104"


def place_of_sealed(path, name):
    from everybit.files.seals.manifest import load_manifest

    manifest = load_manifest(path.parent)
    tensors = {tensor.name: tensor for tensor in manifest.files[path.name].tensors}
    return tensors[name].start


@pytest.mark.parametrize("size", [3000, 90_000])
def test_a_shorter_file_that_is_whole_was_not_cut(tmp_path, size):
    torch.manual_seed(0)
    values = torch.randn(size)
    path = makers.save({"a": values, "more": "x" * 3000}, tmp_path / "m.pt")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"hidden": 8, "names": "y" * 100}))
    everybit.seal(tmp_path)
    makers.save({"a": values}, path)  # equal tensors in a shorter container
    config.write_text(json.dumps({"hidden": 8}))
    found = {f.where.path: f for f in everybit.verify(tmp_path).findings}
    assert (found["m.pt"].rule, found["m.pt"].severity) == ("FIL101", Severity.NOTE)
    assert found["config.json"].rule == "FIL101"
    assert "another file" in found["config.json"].message
    rules = {f.where.path: f.rule for f in everybit.verify(tmp_path, level="structure").findings}
    assert rules["m.pt"] == "FIL101"
    makers.save({"a": values}, path, _use_new_zipfile_serialization=False)  # another format
    found = {f.where.path: f for f in everybit.verify(tmp_path).findings}
    assert found["m.pt"].rule == "FIL101"
    assert "torch-legacy, sealed as torch-zip" in found["m.pt"].message


@pytest.mark.parametrize("size", [3000, 90_000])
def test_every_cut_of_an_archive_is_a_cut(tmp_path, size):
    torch.manual_seed(0)
    path = makers.save({"a": torch.randn(size), "b": torch.randn(9)}, tmp_path / "m.pt")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"hidden": 8, "names": "y" * 100}))
    everybit.seal(tmp_path)
    clean, text = path.read_bytes(), config.read_bytes()
    for keep in (0, 5, 30, 200, 1000, len(clean) // 2, len(clean) - 22, len(clean) - 1):
        path.write_bytes(clean[:keep])
        config.write_bytes(text[: min(keep, len(text) - 1)])
        found = {f.where.path: f.rule for f in everybit.verify(tmp_path).findings}
        assert found == {"m.pt": "FIL104", "config.json": "FIL104"}, keep
        found = {
            f.where.path: f.rule for f in everybit.verify(tmp_path, level="structure").findings
        }
        assert found["config.json"] == "FIL104"
        assert found["m.pt"] in ("FIL104", "FIL107", "FIL118"), keep


def test_appended_bytes_are_found(sealed):
    size = sealed.stat().st_size
    with sealed.open("ab") as file:
        file.write(b"more")
    finding = only_finding(sealed)
    assert finding.rule == "FIL101"
    assert finding.where.byte_range == (size, size + 4)


def test_a_missing_file_is_a_finding_and_a_missing_path_an_error(sealed, tmp_path):
    sealed.unlink()
    for target in (sealed.parent, sealed):
        finding = only_finding(target)
        assert (finding.rule, finding.where.path) == ("FIL103", sealed.name)
    with pytest.raises(PathError, match="no such file"):
        everybit.verify(tmp_path / "nothing.pt")
    with pytest.raises(PathError, match="no such file"):
        everybit.seal(tmp_path / "nothing.pt")


def test_an_unsealed_model_is_reported_and_a_note_is_not(sealed):
    (sealed.parent / "notes.txt").write_text("hello")
    assert everybit.verify(sealed.parent).status is Status.CLEAN
    other = makers.save({"x": torch.ones(3)}, sealed.parent / "other.pt")
    for target in (sealed.parent, other):
        finding = only_finding(target)
        assert (finding.rule, finding.where.path) == ("FIL109", "other.pt")
        assert finding.severity is Severity.WARNING


def test_several_damages_are_several_findings(tmp_path):
    for name in ("a.pt", "b.pt", "c.pt"):
        makers.save({"w": torch.randn(3000)}, tmp_path / name)
    everybit.seal(tmp_path)
    makers.flip(tmp_path / "a.pt", place_of(tmp_path / "a.pt", "w")[0])
    (tmp_path / "b.pt").unlink()
    (tmp_path / "c.pt").write_bytes((tmp_path / "c.pt").read_bytes()[:5000])
    found = {finding.rule: finding.where.path for finding in everybit.verify(tmp_path).findings}
    assert found == {"FIL102": "a.pt", "FIL103": "b.pt", "FIL104": "c.pt"}


def test_a_rewritten_container_with_equal_tensors_is_a_note(tmp_path):
    value = makers.weights()
    path = makers.save(value, tmp_path / "model.pt")
    everybit.seal(path)
    value["extra"] = "text"
    makers.save(value, path)
    finding = only_finding(path)
    assert (finding.rule, finding.severity) == ("FIL101", Severity.NOTE)
    assert "written anew" in finding.message
    assert everybit.verify(path).exit_code() == 0
    value["optimizer"]["state"][0]["step"] = 8  # the same size, other bytes around the tensors
    everybit.seal(path)
    value["optimizer"]["state"][0]["step"] = 9
    makers.save(value, path)
    assert only_finding(path).severity is Severity.NOTE


@pytest.mark.parametrize(
    "again",
    [
        lambda t: t.t().contiguous().t(),
        lambda t: t.neg().resolve_neg()._neg_view(),
        lambda t: torch.as_strided(t, t.shape, (t.shape[1], 1)).clone(),
    ],
    ids=["strides", "negative", "plain"],
)
def test_equal_values_stored_otherwise_are_no_damage(tmp_path, again):
    torch.manual_seed(0)
    values = torch.randn(300, 200)
    path = makers.save({"a": values}, tmp_path / "m.pt")
    everybit.seal(path)
    makers.save({"a": again(values)}, path)
    assert torch.equal(torch.load(path)["a"], values)
    verdict = everybit.verify(path)
    assert {(f.rule, f.severity) for f in verdict.findings} <= {("FIL101", Severity.NOTE)}
    assert verdict.exit_code() == 0
    other = values.clone()
    other[7, 11] += 1
    makers.save({"a": again(other)}, path)
    rules = [finding.rule for finding in everybit.verify(path).findings]
    assert rules == ["FIL102"]


def test_a_rewritten_container_with_another_tensor_names_it(tmp_path):
    value = makers.weights()
    path = makers.save(value, tmp_path / "model.pt")
    everybit.seal(path)
    value["model"]["weight"] = value["model"]["weight"] + 1
    value["more"] = "x" * 500
    makers.save(value, path)
    finding = only_finding(path)
    assert (finding.rule, finding.where.tensor) == ("FIL102", "model.weight")
    del value["model"]["bias"]
    makers.save(value, path)
    rules = {finding.rule: finding for finding in everybit.verify(path).findings}
    assert rules["FIL101"].evidence["missing"] == ["model.bias"]
    assert rules["FIL101"].severity is Severity.ERROR


def test_views_of_the_same_bytes_are_one_finding(checkpoint):
    everybit.seal(checkpoint)
    start, _ = place_of(checkpoint, "model.view")
    makers.flip(checkpoint, start + 4 * 5)
    finding = only_finding(checkpoint)
    names = {finding.where.tensor, *finding.evidence["also"]}
    assert names == {"model.view", "model.transposed"}
    start, _ = place_of(checkpoint, "model.tied")
    makers.flip(checkpoint, start)
    assert {f.where.tensor for f in everybit.verify(checkpoint).findings} >= {"model.head"}


def test_elements_of_strided_tensors_are_counted_row_major(checkpoint):
    everybit.seal(checkpoint)
    tensor = makers.weights()["model"]["conv"]
    start, _ = place_of(checkpoint, "model.conv")
    storage_index = 37
    makers.flip(checkpoint, start + 4 * storage_index + 3, 7)
    finding = only_finding(checkpoint)
    (element,) = finding.where.elements
    index = np.unravel_index(element, tensor.shape)
    flat = sum(int(i) * s for i, s in zip(index, tensor.stride(), strict=True))
    assert flat == storage_index
    assert finding.evidence["changes"][0]["before"] == float(tensor[index])


def test_damage_in_larger_parts_of_strided_tensors(tmp_path):
    path = makers.save({"t": torch.randn(256, 512).t()}, tmp_path / "m.pt")
    everybit.seal(path)
    start, _ = place_of(path, "t")
    makers.overwrite(path, LEAF_BYTES * 2 + 64, bytes(900))
    finding = only_finding(path)
    assert finding.where.tensor == "t"
    flat = np.concatenate([np.arange(a, b) for a, b in finding.where.element_ranges])
    assert len(flat) == LEAF_BYTES // 4
    # Element (i, j) of the transposed view lies at storage j * 512 + i.
    rows, columns = np.divmod(flat, 256)
    places = start + 4 * (columns * 512 + rows)
    assert LEAF_BYTES * 2 - 3 <= places.min() < places.max() < LEAF_BYTES * 3


def test_expanded_tensors_are_sealed_without_unpacking_them(tmp_path):
    value = {"huge": torch.ones(1).expand(1 << 20, 1 << 20), "row": torch.arange(9.0).expand(4, 9)}
    path = makers.save(value, tmp_path / "m.pt")
    everybit.seal(path)
    assert everybit.verify(path).ok
    makers.flip(path, place_of(path, "row")[0] + 8)
    finding = only_finding(path)
    assert finding.where.tensor == "row"
    assert finding.where.elements == (2,)
    makers.flip(path, place_of(path, "row")[0] + 8)
    makers.flip(path, place_of(path, "huge")[0])
    assert only_finding(path).rule in ("FIL101", "FIL102")


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("m.pt", b"", "FIL118"),
        ("m.pt", b"hello world\n", "FIL118"),
        ("m.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "FIL118"),
        ("m.ckpt", b"<!DOCTYPE html>\n<html>", "FIL118"),
        ("pytorch_model.bin", b"version https://git-lfs.github.com/spec/v1\n", "FIL118"),
        ("m.pt", bytes(5000), "FIL118"),
        ("m.safetensors", b"\x93NUMPY" + bytes(range(200)), "FIL118"),
        ("m.safetensors", b"\x10\0\0\0\0\0\0\0{", "FIL104"),
    ],
)
def test_what_is_no_model_under_a_model_name(tmp_path, name, content, rule):
    path = tmp_path / name
    path.write_bytes(content)
    finding = only_finding(path)
    assert finding.rule == rule
    assert finding.where.path == name
    assert "weights_only" not in finding.remedy
    assert only_finding(tmp_path).rule == rule
    if rule == "FIL118" and b"NUMPY" not in content:
        with pytest.raises(DamagedError, match=rule):
            everybit.seal(path)


def test_other_files_can_be_sealed_and_are_inconclusive_otherwise(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 30_000)
    assert everybit.verify(path).status is Status.INCONCLUSIVE
    assert everybit.verify(tmp_path).status is Status.INCONCLUSIVE
    everybit.seal(tmp_path)
    assert everybit.verify(tmp_path).status is Status.CLEAN
    makers.flip(path, 100_000)
    finding = only_finding(path)
    assert finding.rule == "FIL101"
    assert finding.where.byte_range == (100_000, 100_001)
    assert finding.evidence["bytes"][0]["bits"] == [0]


def test_safetensors_without_a_manifest(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"w": torch.ones(5)}, path)
    full = everybit.verify(path)
    assert (full.status, full.exit_code()) == (Status.INCONCLUSIVE, 3)
    assert everybit.verify(path, level="structure").status is Status.CLEAN


@pytest.mark.parametrize("damage", ["cut", "member", "structure"])
def test_damaged_files_are_not_sealed(checkpoint, damage):
    if damage == "cut":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-500])
    elif damage == "member":
        makers.flip(checkpoint, place_of(checkpoint, "model.weight")[0])
    else:
        makers.flip(checkpoint, 6)
    with pytest.raises(DamagedError, match=r"FIL10[478]"):
        everybit.seal(checkpoint)
    assert not (checkpoint.parent / MANIFEST_NAME).exists()


def test_sealing_one_file_keeps_the_others(tmp_path):
    first = makers.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    second = makers.save({"b": torch.ones(3)}, tmp_path / "b.pt")
    assert everybit.seal(first) == [tmp_path / MANIFEST_NAME]
    everybit.seal(second)
    assert everybit.verify(tmp_path).ok
    makers.save({"a": torch.zeros(3)}, first)
    assert not everybit.verify(tmp_path).ok
    everybit.seal(first)
    assert everybit.verify(tmp_path).ok
    first.unlink()
    everybit.seal(tmp_path)
    assert everybit.verify(tmp_path).ok


def test_a_failed_seal_leaves_the_old_manifest(tmp_path):
    makers.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    everybit.seal(tmp_path)
    before = (tmp_path / MANIFEST_NAME).read_bytes()
    (tmp_path / "b.pt").write_text("no model")
    with pytest.raises(DamagedError):
        everybit.seal(tmp_path)
    assert (tmp_path / MANIFEST_NAME).read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [MANIFEST_NAME, "a.pt", "b.pt"]


def test_folders_links_and_temporary_files(tmp_path):
    store = tmp_path / "blobs"
    store.mkdir()
    blob = makers.save({"a": torch.randn(1000)}, store / "0123abcd")
    folder = tmp_path / "snapshot"
    (folder / "sub").mkdir(parents=True)
    (folder / "model.pt").symlink_to(blob)
    makers.save({"b": torch.ones(3)}, folder / "sub" / "b.pt")
    (folder / "loop").symlink_to(folder)
    (folder / "outside").symlink_to(store)
    (folder / ".hidden.tmp").write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_text("x")
    everybit.seal(folder)
    verdict = everybit.verify(folder)
    assert verdict.ok
    counts = {item.what: item.count for item in verdict.coverage.checked}
    assert counts["files against their seal"] == 2
    makers.flip(blob, place_of(blob, "a")[0])
    assert only_finding(folder).where.path == "model.pt"
    assert only_finding(folder / "model.pt").rule == "FIL102"
    assert everybit.verify(folder / "sub" / "b.pt").ok  # known by the manifest above it
    (folder / "gone.pt").symlink_to(store / "nothing")
    with pytest.raises(PathError, match="leads nowhere"):
        everybit.seal(folder)


@pytest.mark.parametrize("target", ["b.pt", "nothing", "../run/b.pt"])
def test_a_link_in_a_circle_does_not_hide_the_other_files(tmp_path, target):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("a.pt", "b.pt"):
        makers.save({"w": torch.randn(3000)}, folder / name)
    everybit.seal(folder)
    (folder / "b.pt").unlink()
    (folder / "b.pt").symlink_to(target)
    makers.flip(folder / "a.pt", place_of(folder / "a.pt", "w")[0])
    found = {finding.rule: finding.where.path for finding in everybit.verify(folder).findings}
    assert found == {"FIL102": "a.pt", "FIL103": "b.pt"}
    assert only_finding(folder / "b.pt").rule == "FIL103"
    before = (folder / MANIFEST_NAME).read_bytes()
    with pytest.raises(PathError, match=r"b\.pt: is a link that leads nowhere or in a circle"):
        everybit.seal(folder)
    assert (folder / MANIFEST_NAME).read_bytes() == before


def test_a_manifest_that_is_a_link_to_nowhere_is_not_clean(tmp_path):
    makers.save({"w": torch.randn(30)}, tmp_path / "a.pt")
    assert everybit.verify(tmp_path).ok
    (tmp_path / MANIFEST_NAME).symlink_to(MANIFEST_NAME)
    verdict = everybit.verify(tmp_path)
    assert verdict.status is Status.INCONCLUSIVE
    assert any(MANIFEST_NAME in item.what for item in verdict.coverage.skipped)
    with pytest.raises(PathError, match="in a circle"):
        everybit.seal(tmp_path)


def test_pipes_devices_and_odd_requests(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathError, match="not a regular file"):
        everybit.verify(tmp_path / "pipe")
    with pytest.raises(PathError, match="nothing to verify"):
        everybit.verify()
    with pytest.raises(PathError, match="nothing to seal"):
        everybit.seal()
    with pytest.raises(PathError, match="no file to seal"):
        everybit.seal(tmp_path)
    with pytest.raises(PathError, match="level"):
        everybit.verify(tmp_path, level="deep")


def test_strong_sees_what_was_made_to_deceive(sealed, monkeypatch):
    from everybit.files.seals import sealed as module

    real = module.read_leaves

    def forged(source, **options):
        done = real(source, **options)
        done.leaves = module_leaves  # as if somebody had found an XXH3 collision
        return done

    module_leaves = real_leaves(sealed)
    makers.flip(sealed, sealed.stat().st_size - 30)
    monkeypatch.setattr(module, "read_leaves", forged)
    assert everybit.verify(sealed).ok
    finding = only_finding(sealed, strong=True)
    assert finding.rule == "FIL101"
    assert "deceive" in finding.message


def real_leaves(path):
    from everybit.files.passes import read_leaves
    from everybit.files.source import ByteSource

    with ByteSource(path) as source:
        return read_leaves(source).leaves


def test_a_file_that_changes_while_it_is_read_is_no_verdict(sealed, monkeypatch):
    from everybit.files.seals import sealed as module

    real = module.read_leaves

    def written_to(source, **options):
        done = real(source, **options)
        with source.path.open("ab") as file:
            file.write(b"x")
        return done

    monkeypatch.setattr(module, "read_leaves", written_to)
    verdict = everybit.verify(sealed)
    assert verdict.status is Status.INCONCLUSIVE
    assert "changed while it was read" in verdict.coverage.skipped[0].why


def test_a_file_that_changes_while_it_is_sealed_is_refused(checkpoint, monkeypatch):
    from everybit.files.seals import sealing

    real = sealing.read_for_seal

    def written_to(source, *args, **options):
        done = real(source, *args, **options)
        with source.path.open("ab") as file:
            file.write(b"x")
        return done

    monkeypatch.setattr(sealing, "read_for_seal", written_to)
    with pytest.raises(PathError, match="changed while it was being sealed"):
        everybit.seal(checkpoint)


def test_manifest_of_a_folder_does_not_list_itself_or_others(tmp_path):
    (tmp_path / "sub").mkdir()
    path = makers.save({"a": torch.ones(3)}, tmp_path / "sub" / "a.pt")
    everybit.seal(path)
    everybit.seal(tmp_path)
    everybit.seal(path)
    assert everybit.verify(tmp_path).ok


def test_shards_that_an_index_lists_must_be_there(tmp_path):
    for name, tensor in (("model-1.safetensors", "a"), ("model-2.safetensors", "b")):
        save_file({tensor: torch.ones(3)}, tmp_path / name)
    index = tmp_path / "model.safetensors.index.json"
    listed = {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "../x", "d": "/y"}
    index.write_text(json.dumps({"weight_map": listed}))
    assert everybit.verify(tmp_path, level="structure").ok
    (tmp_path / "model-2.safetensors").unlink()
    finding = only_finding(tmp_path)
    assert (finding.rule, finding.where.path) == ("FIL103", "model-2.safetensors")
    assert finding.evidence["listed_by"] == index.name
    index.write_text("[" * 100_000)
    assert not everybit.verify(tmp_path, level="structure").ok


@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_shards_that_do_not_hold_what_the_index_says(tmp_path, kind):
    ending, save = {
        "safetensors": ("safetensors", save_file),
        "torch": ("bin", makers.save),
    }[kind]
    shards = [tmp_path / f"model-{number}.{ending}" for number in (1, 2)]
    save({"a": torch.ones(3), "c.weight": torch.ones(2)}, shards[0])
    save({"b": torch.zeros(3)}, shards[1])
    listed = {"a": shards[0].name, "c.weight": shards[0].name, "b": shards[1].name}
    index = tmp_path / f"model.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": listed}))
    assert everybit.verify(tmp_path, level="structure").ok
    everybit.seal(tmp_path)
    assert everybit.verify(tmp_path).ok
    (tmp_path / MANIFEST_NAME).unlink()
    save({"a": torch.ones(3)}, shards[0])  # one tensor less
    for level in ("structure", "full"):
        (finding,) = everybit.verify(tmp_path, level=level).findings
        assert (finding.rule, finding.where.path) == ("FIL114", shards[0].name)
        assert finding.where.tensor == "c.weight"
    everybit.seal(tmp_path)  # a seal makes nothing right
    assert only_finding(tmp_path).rule == "FIL114"
    (tmp_path / MANIFEST_NAME).unlink()
    shards[0].rename(tmp_path / "z")
    shards[1].rename(shards[0])
    (tmp_path / "z").rename(shards[1])
    found = everybit.verify(tmp_path, level="structure").findings
    # The first now holds just what belongs into the second, which holds less than the first should.
    told = {(f.rule, f.where.path) for f in found}
    assert told == {("FIL106", shards[0].name), ("FIL114", shards[1].name)}


def test_a_folder_of_sealed_folders_is_held_against_each_manifest(tmp_path):
    for step in (1, 2):
        folder = tmp_path / f"step_{step}"
        folder.mkdir()
        save_file({"w": torch.randn(3000)}, folder / "model.safetensors")
        everybit.seal(folder)
    verdict = everybit.verify(tmp_path)
    assert verdict.status is Status.CLEAN
    assert verdict.coverage.checked[0].count == 2
    makers.flip(tmp_path / "step_2" / "model.safetensors", 5000)
    finding = only_finding(tmp_path)
    assert (finding.rule, finding.where.path) == ("FIL102", "step_2/model.safetensors")
    makers.flip(tmp_path / "step_1" / MANIFEST_NAME, 99)
    rules = {finding.rule: finding.where.path for finding in everybit.verify(tmp_path).findings}
    assert rules == {"FIL110": f"step_1/{MANIFEST_NAME}", "FIL102": "step_2/model.safetensors"}


def test_a_manifest_above_serves_a_folder_with_one_of_its_own(tmp_path):
    folder = tmp_path / "sub"
    folder.mkdir()
    first = makers.save({"a": torch.ones(3)}, folder / "a.pt")
    everybit.seal(first)
    second = makers.save({"b": torch.ones(3)}, folder / "b.pt")
    assert not everybit.verify(second).findings  # one file was sealed, and no folder
    assert not everybit.verify(folder).findings
    everybit.seal(tmp_path)
    assert everybit.verify(second).ok
    makers.save({"a": torch.zeros(3)}, first)
    everybit.seal(first)  # the manifest above is stale now, so the two disagree
    assert everybit.verify(first).ok
    assert only_finding(tmp_path).where.path == "sub/a.pt"
    makers.flip(tmp_path / MANIFEST_NAME, 100)
    other = makers.save({"c": torch.ones(3)}, folder / "c.pt")
    verdict = everybit.verify(other)
    assert not verdict.findings
    assert verdict.status is Status.INCONCLUSIVE  # whether the damaged one lists it is not known


def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path, monkeypatch):
    for name in ("a.pt", "b.pt"):
        makers.save({"w": torch.randn(3000)}, tmp_path / name)
    everybit.seal(tmp_path)
    makers.flip(tmp_path / "b.pt", 6000)
    from everybit.files.checks import placed

    real = placed.ByteSource

    def failing(path):
        if path.name == "a.pt":
            raise PathError("input/output error", where=str(path))
        return real(path)

    monkeypatch.setattr(placed, "ByteSource", failing)
    verdict = everybit.verify(tmp_path)
    assert [finding.where.path for finding in verdict.findings] == ["b.pt"]
    assert "input/output error" in verdict.coverage.skipped[0].why
    with pytest.raises(PathError, match="input/output"):
        everybit.verify(tmp_path / "a.pt")


def test_a_folder_in_the_place_of_a_sealed_file_is_a_missing_file(sealed):
    sealed.unlink()
    sealed.mkdir()
    assert only_finding(sealed.parent).rule == "FIL103"


def test_strong_is_not_promised_lightly(checkpoint):
    verdict = everybit.verify(checkpoint, strong=True)
    assert verdict.status is Status.INCONCLUSIVE
    assert "BLAKE3" in verdict.coverage.skipped[0].what


@pytest.mark.parametrize(
    "content", [b"version https://git-lfs.github.com/spec/v1\n", b"<html>gone</html>"]
)
def test_a_pointer_or_page_in_the_place_of_a_sealed_model(sealed, content):
    sealed.write_bytes(content)
    finding = only_finding(sealed)
    assert finding.rule == "FIL118"
    assert finding.evidence["expected_bytes"] > finding.evidence["size_bytes"]


def test_a_link_that_leads_nowhere_is_missing_or_not_checked(sealed, tmp_path):
    blob = tmp_path / "blob"
    sealed.rename(blob)
    sealed.symlink_to(blob)
    assert everybit.verify(sealed.parent).ok
    blob.unlink()
    assert only_finding(sealed.parent).rule == "FIL103"
    (sealed.parent / MANIFEST_NAME).unlink()
    verdict = everybit.verify(sealed.parent)
    assert verdict.status is Status.INCONCLUSIVE
    assert sealed.name in verdict.coverage.skipped[0].what
