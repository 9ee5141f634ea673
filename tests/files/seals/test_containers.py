"""Every format that holds tensors: sealed, damaged, re-saved, changed."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from tests.files import makers

import everybit
from everybit.core.finding import Severity
from everybit.core.verdict import Status
from everybit.files.seals.manifest import load_manifest

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def _arrays(values):
    return {name: value.numpy() for name, value in values.items()}


def _npy(values, path):
    np.save(path, values["first"].numpy())


SAVERS = {
    "model.safetensors": save_file,
    "model.pt": torch.save,
    "legacy.bin": lambda v, p: torch.save(v, p, _use_new_zipfile_serialization=False),
    "arrays.npz": lambda v, p: np.savez(p, **_arrays(v)),
    "array.npy": _npy,
}


def _values(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return {"first": torch.randn(300, 200, generator=rng), "second": torch.randn(77, generator=rng)}


@pytest.fixture(params=list(SAVERS))
def made(request, tmp_path):
    """A sealed file, and what saves it again."""
    path = tmp_path / request.param
    SAVERS[request.param](_values(), path)
    everybit.seal(tmp_path)
    return path, SAVERS[request.param]


def _first(path):
    tensors = load_manifest(path.parent).files[path.name].tensors
    return next(t for t in tensors if t.num_elements == 60_000)


def test_a_flip_in_any_format_names_tensor_and_element(made):
    path, _ = made
    assert everybit.verify(path.parent).status is Status.CLEAN
    tensor = _first(path)
    start, end = tensor.byte_ranges[0]
    clean, rng = path.read_bytes(), random.Random(0)
    for _ in range(10):
        offset = rng.randrange(start, end)
        makers.flip(path, offset, rng.randrange(8))
        (finding,) = everybit.verify(path).findings
        assert (finding.rule, finding.where.tensor) == ("FIL102", tensor.name)
        assert finding.where.elements == ((offset - start) // 4,)
        path.write_bytes(clean)


def test_a_zeroed_page_and_a_cut(made):
    path, _ = made
    tensor = _first(path)
    start, _ = tensor.byte_ranges[0]
    clean = path.read_bytes()
    page = (start // 4096 + 3) * 4096
    makers.overwrite(path, page, bytes(4096))
    (finding,) = everybit.verify(path).findings
    assert (finding.rule, finding.where.tensor) == ("FIL102", tensor.name)
    for size in (page, len(clean) - 1):
        path.write_bytes(clean[:size])
        assert [f.rule for f in everybit.verify(path).findings] == ["FIL104"], size


def test_saved_again_with_equal_tensors_is_no_damage(made):
    path, save = made
    for _ in range(2):
        save(_values(), path)
        verdict = everybit.verify(path)
        assert all(f.severity is Severity.NOTE for f in verdict.findings)
        assert verdict.exit_code() == 0


def test_saved_again_with_another_tensor_names_it(made):
    path, save = made
    values = _values()
    values["first"] = values["first"] + 1
    save(values, path)
    found = [f for f in everybit.verify(path).findings if f.severity is Severity.ERROR]
    assert [(f.rule, f.where.tensor) for f in found] == [("FIL102", _first(path).name)]


@pytest.mark.parametrize("again", ["model.pt", "legacy.bin", "model.safetensors"])
@pytest.mark.parametrize("first", ["model.pt", "legacy.bin", "model.safetensors"])
def test_equal_tensors_in_another_format(tmp_path, first, again):
    path = tmp_path / "m.bin"
    SAVERS[first](_values(), path)
    everybit.seal(path)
    SAVERS[again](_values(), path)
    verdict = everybit.verify(path)
    assert verdict.exit_code() == 0, verdict.findings
    if first != again:
        (finding,) = verdict.findings
        assert "sealed as" in finding.message
    values = _values()
    values["second"] += 1
    SAVERS[again](values, path)
    found = [f for f in everybit.verify(path).findings if f.severity is Severity.ERROR]
    assert [(f.rule, f.where.tensor) for f in found] == [("FIL102", "second")]


@pytest.fixture
def distributed(tmp_path):
    folder = tmp_path / "step_7"
    dcp.save({"model": _values(), "step": 7}, checkpoint_id=folder, no_dist=True)
    return folder


def test_tensors_of_a_distributed_checkpoint_are_named(distributed):
    everybit.seal(distributed)
    assert everybit.verify(distributed).status is Status.CLEAN
    manifest = load_manifest(distributed)
    assert ".metadata" in manifest.files
    (name,) = [name for name in manifest.files if name.endswith(".distcp")]
    tensors = {tensor.name: tensor for tensor in manifest.files[name].tensors}
    assert {"model.first", "model.second"} <= set(tensors)
    path = distributed / name
    start, _ = tensors["model.first"].byte_ranges[0]
    clean = path.read_bytes()
    makers.flip(path, start + 4000, 3)
    (finding,) = everybit.verify(distributed).findings
    assert (finding.rule, finding.where.tensor) == ("FIL102", "model.first")
    makers.overwrite(path, (start // 4096 + 2) * 4096, bytes(4096))
    (finding,) = everybit.verify(distributed).findings
    assert (finding.rule, finding.where.tensor) == ("FIL102", "model.first")
    path.write_bytes(clean)
    assert everybit.verify(distributed).status is Status.CLEAN
    (distributed / ".metadata").unlink()
    makers.overwrite(path, (start // 4096 + 2) * 4096, bytes(4096))
    found = {(f.rule, f.where.path, f.where.tensor) for f in everybit.verify(distributed).findings}
    assert found == {("FIL103", ".metadata", None), ("FIL102", name, "model.first")}


def test_a_distributed_checkpoint_saved_again(distributed):
    everybit.seal(distributed)
    dcp.save({"model": _values(), "step": 7}, checkpoint_id=distributed, no_dist=True)
    verdict = everybit.verify(distributed)
    assert verdict.exit_code() == 0, verdict.findings
    assert {f.where.path for f in verdict.findings} == {".metadata"}  # a new id of the save
    values = _values()
    values["second"] += 1
    dcp.save({"model": values, "step": 7}, checkpoint_id=distributed, no_dist=True)
    errors = [f for f in everybit.verify(distributed).findings if f.severity is Severity.ERROR]
    assert [(f.rule, f.where.tensor) for f in errors] == [("FIL102", "model.second")]
    dcp.save({"model": {"second": values["second"]}}, checkpoint_id=distributed, no_dist=True)
    errors = [f for f in everybit.verify(distributed).findings if f.severity is Severity.ERROR]
    assert ".metadata" in {f.where.path for f in errors}


def test_any_flip_in_a_metadata_file_is_an_error(distributed):
    everybit.seal(distributed)
    path = distributed / ".metadata"
    clean, rng = path.read_bytes(), random.Random(0)
    for offset in rng.sample(range(len(clean)), 60):
        makers.flip(path, offset, rng.randrange(8))
        found = everybit.verify(path).findings
        assert [(f.rule, f.severity) for f in found] == [("FIL101", Severity.ERROR)]
        path.write_bytes(clean)


def test_json_written_anew_says_the_same_or_does_not(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"hidden": 8, "layers": [1, 2.50], "name": "\u00e9"}')
    everybit.seal(path)
    for text in (
        '{"name":"é",\n "layers":[1,2.5],\n "hidden":8}',
        '{"hidden": 8, "layers": [1, 2.50],   "name": "é"}',
    ):
        path.write_text(text)
        (finding,) = everybit.verify(path).findings
        assert (finding.rule, finding.severity) == ("FIL101", Severity.NOTE)
    for text in (
        '{"hidden": 8, "layers": [2, 1.5], "name": "\u00e9"}',
        '{"hidden": 9, "hidden": 8, "layers": [1, 2.5], "name": "\u00e9"}',
    ):
        path.write_text(text)
        (finding,) = everybit.verify(path).findings
        assert (finding.rule, finding.severity) == ("FIL101", Severity.ERROR)


def test_a_sharded_folder_and_its_swapped_shards(tmp_path):
    for number in (1, 2):
        save_file({f"w{number}": torch.randn(3000)}, tmp_path / f"model-{number}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"w1": "model-1.safetensors", "w2": "model-2.safetensors"}}'
    )
    (tmp_path / "config.json").write_text("{}")
    everybit.seal(tmp_path)
    verdict = everybit.verify(tmp_path)
    assert not verdict.findings
    a, b = (tmp_path / f"model-{number}.safetensors" for number in (1, 2))
    first = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(first)
    found = everybit.verify(tmp_path).findings
    assert {f.where.path for f in found} == {a.name, b.name}
    assert all(f.severity is Severity.ERROR for f in found)


def test_a_bare_token_file(tmp_path):
    path = tmp_path / "train.bin"
    ids = np.random.default_rng(0).integers(0, 40, 90_000).astype("<u2")
    path.write_bytes(ids.tobytes())
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 40, "itos": {0: "a"}}))
    everybit.seal(tmp_path)
    assert everybit.verify(tmp_path).status is Status.CLEAN
    clean = path.read_bytes()
    makers.flip(path, 2 * 70_000, 2)
    (finding,) = everybit.verify(path).findings
    assert (finding.rule, finding.where.elements) == ("FIL102", (70_000,))
    for size in (65_536, 100_000, len(clean) - 2):  # any even size could be whole
        path.write_bytes(clean[:size])
        assert [f.rule for f in everybit.verify(path).findings] == ["FIL104"], size
    path.write_bytes(clean + b"\0\0")
    assert [f.rule for f in everybit.verify(path).findings] == ["FIL101"]
    path.write_bytes(ids[::-1].tobytes())
    assert [f.severity for f in everybit.verify(path).findings] == [Severity.ERROR]


def test_a_compressed_array_is_named_by_its_own_bytes(tmp_path):
    path = tmp_path / "c.npz"
    values = np.random.default_rng(0).standard_normal(60_000)
    np.savez_compressed(path, first=values, second=values[::-1])
    everybit.seal(path)
    tensor = next(
        t for t in load_manifest(tmp_path).files["c.npz"].tensors if t.name.startswith("second")
    )
    start, _ = tensor.byte_ranges[0]
    assert tensor.unreadable
    clean = path.read_bytes()
    makers.flip(path, start + 5000, 3)
    (finding,) = everybit.verify(path).findings
    assert (finding.rule, finding.where.tensor) == ("FIL102", tensor.name)
    assert finding.where.byte_range == (start + 5000, start + 5001)
    assert finding.where.elements is None
    path.write_bytes(clean)
    makers.overwrite(path, start + 90_000, bytes(100))
    (finding,) = everybit.verify(path).findings
    assert finding.where.tensor == tensor.name
    path.write_bytes(clean)
    makers.overwrite(path, start - 50, bytes(100))  # across the border: whose is not known
    rules = {f.rule for f in everybit.verify(path).findings}
    assert "FIL102" not in rules
