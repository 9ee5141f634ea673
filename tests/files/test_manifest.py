from __future__ import annotations

import json
import random

import pytest
import torch
from tests.files import makers

import everybit
from everybit.core.errors import DamagedError, PathError
from everybit.core.tree import TreeHasher, tree_digest
from everybit.core.verdict import Status
from everybit.files.damage import MalformedError
from everybit.files.seals.manifest import MANIFEST_NAME, Manifest, decode_manifest, load_manifest
from everybit.files.seals.sealing import seal_file


@pytest.fixture
def manifest(checkpoint):
    return Manifest(
        files={"model.pt": seal_file(checkpoint, "model.pt")}, sealed_at="now", sealed_by="me"
    )


def resigned(document: dict) -> bytes:
    """A manifest of any content whose digest holds."""
    body = (json.dumps(document)[1:] + "\n").encode()
    digest = tree_digest("bytes", (len(body),), body).hex.encode()
    return b'{\n"digest": "tree:' + digest + b'",\n' + body


def test_reading_gives_what_was_written(manifest):
    data = manifest.encode()
    again = decode_manifest(data)
    assert again.encode() == data
    assert again.sealed_at == "now"
    old, new = manifest.files["model.pt"], again.files["model.pt"]
    assert (old.leaves, old.crcs, old.tree, old.blake3) == (
        new.leaves, new.crcs, new.tree, new.blake3,
    )  # fmt: skip
    assert [t.tree for t in old.tensors] == [t.tree for t in new.tensors]
    assert json.loads(data)["schema"] == "everybit.manifest/1"


def test_every_field_survives(manifest):
    from dataclasses import replace

    from everybit.core.digest import Algorithm, Digest
    from everybit.files.seals.manifest import Covers, TakenFrom

    file = replace(
        manifest.files["model.pt"],
        sha256=Digest(Algorithm.SHA256, "ab" * 32),
        taken_from=TakenFrom.MEMORY,
        parameter_order=("model.bias", "elsewhere", "model.weight"),
    )
    full = replace(
        manifest,
        files={"model.pt": file},
        covers=Covers.FILES,
        save_id="mine",
        step=7,
        counters={"model.pt:step": 7, "lr": 0.5},
        parity={"any": ["thing", {"nested": 1}]},
    )
    again = decode_manifest(full.encode())
    for name in ("covers", "save_id", "step", "counters", "parity"):
        assert getattr(again, name) == getattr(full, name), name
    read = again.files["model.pt"]
    for name in ("sha256", "taken_from", "parameter_order"):
        assert getattr(read, name) == getattr(file, name), name
    assert again.encode() == full.encode()


def test_leaves_of_tensors_that_are_stored_otherwise(tmp_path):
    values = torch.randn(300, 200)
    path = makers.save({"plain": values, "turned": values.clone().t()}, tmp_path / "m.pt")
    everybit.seal(path)
    entry = load_manifest(tmp_path).files["m.pt"]
    assert list(entry.tensor_leaves) == ["turned"]
    data = makers.canonical(values.t())
    hasher = TreeHasher()
    hasher.update(data)
    assert entry.tensor_leaves["turned"] == hasher.leaves()
    document = json.loads((tmp_path / MANIFEST_NAME).read_bytes())
    del document["digest"]
    document["files"]["m.pt"]["tensors"]["turned"]["leaves"] = "AAAA"
    with pytest.raises(MalformedError, match="FIL110"):
        decode_manifest(resigned(document)).files["m.pt"].tensor_leaves["turned"]


def test_ten_thousand_tensors_load_at_once_and_are_small(tmp_path):
    import time

    values = {f"layers.{number}.weight": torch.zeros(4) for number in range(10_000)}
    path = makers.save(values, tmp_path / "m.pt")
    everybit.seal(path)
    began = time.process_time()
    manifest = load_manifest(tmp_path)
    assert time.process_time() - began < 0.5
    assert len(manifest.files["m.pt"].tensors) == 10_000
    assert manifest.files["m.pt"].parameter_order == tuple(values)
    assert (tmp_path / MANIFEST_NAME).stat().st_size < 300 * 10_000


def test_sealed_tensors_have_the_digests_of_their_canonical_bytes(manifest):
    found = {tensor.name: tensor for tensor in manifest.files["model.pt"].tensors}
    for name, tensor in makers.weights()["model"].items():
        stored = found[f"model.{name}"]
        dtype = str(tensor.dtype).removeprefix("torch.")
        expected = tree_digest(dtype, tuple(tensor.shape), makers.canonical(tensor))
        assert stored.tree == expected, name


def test_any_flipped_bit_is_noticed(checkpoint):
    everybit.seal(checkpoint)
    path = checkpoint.parent / MANIFEST_NAME
    good = path.read_bytes()
    rng = random.Random(0)
    places = [*range(60), *rng.sample(range(len(good)), 300), len(good) - 1]
    for place in places:
        damaged = bytearray(good)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(MalformedError) as caught:
            decode_manifest(bytes(damaged))
        assert caught.value.rule == "FIL110", place


def test_a_damaged_manifest_is_a_finding_and_nothing_is_called_clean(checkpoint):
    everybit.seal(checkpoint)
    makers.flip(checkpoint.parent / MANIFEST_NAME, 200)
    for target in (checkpoint, checkpoint.parent):
        verdict = everybit.verify(target)
        (finding,) = verdict.findings
        assert finding.rule == "FIL110"
        assert verdict.exit_code() == 1
        assert any("seal" in item.what and item.promised for item in verdict.coverage.skipped)
    with pytest.raises(DamagedError, match="FIL110"):
        everybit.seal(checkpoint)
    everybit.seal(checkpoint.parent)
    assert everybit.verify(checkpoint).status is Status.CLEAN


@pytest.mark.parametrize("cut", [0, 1, 30, 60, 400, -1])
def test_a_cut_or_empty_manifest_does_not_hold(checkpoint, cut):
    everybit.seal(checkpoint)
    path = checkpoint.parent / MANIFEST_NAME
    path.write_bytes(path.read_bytes()[:cut])
    assert [finding.rule for finding in everybit.verify(checkpoint).findings] == ["FIL110"]


def change(document, keys, value):
    for key in keys[:-1]:
        document = document[key]
    document[keys[-1]] = value


FILE = ("files", "model.pt")
TENSOR = (*FILE, "tensors", "model.weight")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("files",), []),
        (("files",), {"../x": {}}),
        (("leaf_bytes",), 4096),
        (("covers",), "everything"),
        (("covers",), None),
        (("step",), -1),
        (("step",), "7"),
        (("step",), True),
        (("counters",), []),
        (("counters",), {"a": "x"}),
        (("counters",), {"a": float("nan")}),
        (("parity",), []),
        ((*FILE, "sha256"), "sha256:00"),
        ((*FILE, "sha256"), "blake3:" + "0" * 64),
        ((*FILE, "taken_from"), "thin air"),
        ((*FILE, "parameter_order"), [1 << 40]),
        ((*FILE, "parameter_order"), [None]),
        ((*FILE, "parameter_order"), 3),
        (FILE, 3),
        ((*FILE, "size_bytes"), -1),
        ((*FILE, "size_bytes"), 1 << 70),
        ((*FILE, "size_bytes"), "x"),
        ((*FILE, "leaves"), "AAAA"),
        ((*FILE, "crc32"), "!!"),
        ((*FILE, "tree"), "tree:00"),
        ((*FILE, "blake3"), "tree:00"),
        ((*FILE, "format"), "floppy"),
        ((*FILE, "tensors"), None),
        ((*TENSOR, "dtype"), "float33"),
        ((*TENSOR, "shape"), [1 << 62, 4]),
        ((*TENSOR, "shape"), [2]),
        ((*TENSOR, "byte_ranges"), [[0, 1 << 40]]),
        ((*TENSOR, "byte_ranges"), [[5, 4]]),
        ((*TENSOR, "stride"), [1 << 40, 1]),
        ((*TENSOR, "tree"), "x"),
    ],
)
def test_a_manifest_made_to_deceive_is_refused(manifest, keys, value):
    document = json.loads(manifest.encode())
    del document["digest"]
    change(document, keys, value)
    with pytest.raises(MalformedError, match="FIL110"):
        list(decode_manifest(resigned(document)).files["model.pt"].tensors)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../b", "a//b", "a\\b", ".", ""])
def test_paths_that_lead_out_are_refused(manifest, path):
    document = json.loads(manifest.encode())
    del document["digest"]
    document["files"] = {path: document["files"]["model.pt"]}
    with pytest.raises(MalformedError, match="leads out"):
        list(decode_manifest(resigned(document)).files["model.pt"].tensors)


def test_nesting_does_not_recurse():
    body = b'"schema": ' + b"[" * 200_000
    digest = tree_digest("bytes", (len(body),), body).hex.encode()
    with pytest.raises(MalformedError, match="FIL110"):
        decode_manifest(b'{\n"digest": "tree:' + digest + b'",\n' + body)


def test_a_newer_schema_asks_for_an_upgrade(manifest, tmp_path):
    document = json.loads(manifest.encode())
    del document["digest"]
    document["schema"] = "everybit.manifest/2"
    (tmp_path / MANIFEST_NAME).write_bytes(resigned(document))
    with pytest.raises(PathError, match="upgrade"):
        load_manifest(tmp_path)


def test_odd_names_survive(tmp_path):
    value = {'q"uote': torch.ones(1), "new\nline": torch.ones(2), "ünï": torch.ones(3)}
    path = makers.save(value, tmp_path / "m\u00e9 \U0001f600.pt")
    everybit.seal(tmp_path)
    assert everybit.verify(path).status is Status.CLEAN
    found = load_manifest(tmp_path)
    assert {tensor.name for tensor in found.files[path.name].tensors} == set(value)
