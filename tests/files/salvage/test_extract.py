"""`everybit.extract`: what is whole is saved bit for bit, what is not is named with its reason."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.files import makers
from tests.files.values import corpus

import everybit
from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Status


def tensors(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return {
        "first": torch.randn(120, 100, generator=rng),
        "half": torch.randn(50, 70, generator=rng).to(torch.float16),
        "brain": torch.randn(77, generator=rng).to(torch.bfloat16),
        "eighth": torch.randn(33, 9, generator=rng).to(torch.float8_e4m3fn),
        "ids": torch.arange(500),
        "flags": torch.arange(9) % 2 == 0,
        "waves": torch.view_as_complex(torch.randn(20, 2, generator=rng)),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 7),
        "last": torch.randn(60, 100, generator=rng),
    }


def extract(source, out):
    verdict = everybit.extract(source, out)
    report = json.loads(out.with_name(out.name + ".lost.json").read_text())
    return verdict, load_file(out), report


def assert_same(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert makers.canonical(got) == makers.canonical(expected)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_an_undamaged_file_comes_out_bit_for_bit(tmp_path, suffix):
    path = corpus.save(tensors(), tmp_path / f"m{suffix}")
    verdict, got, report = extract(path, tmp_path / "out.safetensors")
    assert got.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert_same(got[name], tensor)
    assert report["num_lost"] == 0
    assert verdict.findings == ()
    expected = Status.CLEAN if suffix == ".pt" else Status.INCONCLUSIVE
    assert verdict.status is expected
    with safe_open(tmp_path / "out.safetensors", "pt") as opened:
        assert opened.metadata()["extracted_from"] == path.name


def test_views_strides_shared_and_nested_tensors(tmp_path):
    path = makers.save(makers.weights(), tmp_path / "m.pt")
    verdict, got, report = extract(path, tmp_path / "o.safetensors")
    loaded = torch.load(path)
    for name in ("weight", "conv", "transposed", "view", "tied", "head", "scalar", "empty"):
        assert_same(got[f"model.{name}"], loaded["model"][name])
    assert_same(got["optimizer.state.0.exp_avg"], loaded["optimizer"]["state"][0]["exp_avg"])
    assert ["model.head", "model.tied"] in [sorted(names) for names in report["shared"]]
    assert verdict.ok


def test_a_member_that_fails_its_checksum_is_left_out(tmp_path):
    path = corpus.save(tensors(), tmp_path / "m.pt")
    start, _ = corpus.place_of(path, "first")
    corpus.put(path, start + 1000, b"\x12\x34\x56")
    verdict, got, report = extract(path, tmp_path / "o.safetensors")
    assert got.keys() == tensors().keys() - {"first"}
    for name in got:
        assert_same(got[name], tensors()[name])
    assert [finding.rule for finding in verdict.findings] == ["FIL108"]
    (lost,) = report["lost"]
    assert lost["tensor"] == "first"
    assert "checksum" in lost["why"]


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_cut_file_gives_what_lies_before_the_cut(tmp_path, suffix):
    path = corpus.save(tensors(), tmp_path / f"m{suffix}")
    start, _ = corpus.place_of(path, "last")
    places = {name: corpus.place_of(path, name) for name in ("first", "half", "brain", "ids")}
    with path.open("r+b") as file:
        file.truncate(start + 5000)
    verdict, got, report = extract(path, tmp_path / "o.safetensors")
    expected = {name for name, (_, end) in places.items() if end <= start}
    assert expected
    assert expected <= got.keys()
    assert "last" not in got
    for name in got:
        assert_same(got[name], tensors()[name])
    assert [finding.rule for finding in verdict.findings] == ["FIL104"]
    assert {lost["tensor"] for lost in report["lost"]} | got.keys() == tensors().keys()


def test_every_cut_of_an_archive_gives_right_tensors_or_a_clear_error(tmp_path):
    path = corpus.save(tensors(), tmp_path / "m.pt")
    whole = path.read_bytes()
    for number, size in enumerate(range(200, len(whole), len(whole) // 40)):
        path.write_bytes(whole[:size])
        out = tmp_path / f"o{number}.safetensors"
        try:
            everybit.extract(path, out)
        except DamagedError:
            assert not out.exists()
            continue
        for name, tensor in load_file(out).items():
            assert_same(tensor, tensors()[name])


def test_a_hole_and_an_implausible_value_cost_their_own_tensors_only(tmp_path):
    weights = corpus.trained_gpt()[0]
    path = corpus.save(weights, tmp_path / "m.safetensors")
    at = corpus.page_inside(path, "blocks.0.up.weight")
    corpus.zero(path, at, at + corpus.PAGE)
    start, _ = corpus.place_of(path, "head.weight")
    corpus.flip(path, start + 4 * 321 + 3, 6)
    _, got, report = extract(path, tmp_path / "o.safetensors")
    assert {lost["tensor"] for lost in report["lost"]} == {"blocks.0.up.weight", "head.weight"}
    assert got.keys() == weights.keys() - {"blocks.0.up.weight", "head.weight"}
    assert set(report["unproven"]) == got.keys()


def test_nan_that_was_saved_so_is_kept_with_a_doubt(tmp_path):
    value = torch.randn(40, 40)
    value[3, 3] = torch.nan
    path = corpus.save({"w": value, "v": torch.randn(9)}, tmp_path / "m.pt")
    _, got, report = extract(path, tmp_path / "o.safetensors")
    assert_same(got["w"], value)
    assert report["doubtful"][0]["tensor"] == "w"


def test_a_seal_proves_each_tensor_even_where_the_header_is_gone(tmp_path):
    path = corpus.save(tensors(), tmp_path / "m.safetensors")
    everybit.seal(tmp_path)
    start, _ = corpus.place_of(path, "first")
    corpus.flip(path, start + 17, 2)
    corpus.put(path, 8, b"garbage!")
    verdict, got, report = extract(path, tmp_path / "o.safetensors")
    assert got.keys() == tensors().keys() - {"first"}
    for name in got:
        assert_same(got[name], tensors()[name])
    assert report["kept_by"] == {"digest": len(tensors()) - 1}
    assert "FIL102" in {finding.rule for finding in verdict.findings}


def sharded(folder):
    folder.mkdir()
    parts = {
        "model-00001-of-00002.safetensors": {"a": torch.randn(30, 20), "b": torch.randn(5)},
        "model-00002-of-00002.safetensors": {"c": torch.randn(40, 20), "d": torch.randn(6)},
    }
    for name, held in parts.items():
        save_file(held, folder / name)
    index = {"metadata": {}, "weight_map": {k: n for n, held in parts.items() for k in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return {name: tensor for held in parts.values() for name, tensor in held.items()}


def test_a_folder_that_lacks_a_shard(tmp_path):
    everything = sharded(tmp_path / "model")
    (tmp_path / "model" / "model-00002-of-00002.safetensors").unlink()
    verdict, got, report = extract(tmp_path / "model", tmp_path / "o.safetensors")
    assert got.keys() == {"a", "b"}
    assert_same(got["a"], everything["a"])
    assert [finding.rule for finding in verdict.findings] == ["FIL103"]
    assert {lost["tensor"] for lost in report["lost"]} == {"c", "d"}
    assert report["lost"][0]["file"] == "model-00002-of-00002.safetensors"


def test_a_checkpoint_folder_keeps_names_apart(tmp_path):
    folder = tmp_path / "checkpoint-10"
    folder.mkdir()
    save_file({"w": torch.ones(3, 4)}, folder / "model.safetensors")
    torch.save({"state": {0: {"exp_avg": torch.zeros(3, 4)}}}, folder / "optimizer.pt")
    (folder / "config.json").write_text("{}")
    _, got, _ = extract(folder, tmp_path / "o.safetensors")
    assert got.keys() == {"w", "optimizer.state.0.exp_avg"}


def test_a_dcp_folder_with_a_damaged_entry(tmp_path):
    folder = tmp_path / "dcp"
    weights = {"a": torch.randn(50, 40), "b": torch.randn(30, 40), "c": torch.arange(100)}
    dcp.save({"model": weights}, checkpoint_id=folder, no_dist=True)
    (path,) = folder.glob("*.distcp")
    raw = path.read_bytes()
    at = raw.index(weights["b"].numpy().tobytes()[:256])
    corpus.flip(path, at + 1001, 5)
    verdict, got, report = extract(folder, tmp_path / "o.safetensors")
    assert got.keys() == {"model.a", "model.c"}
    assert_same(got["model.a"], weights["a"])
    assert [finding.rule for finding in verdict.findings] == ["FIL108"]
    assert report["lost"][0]["tensor"] == "model.b"


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path, monkeypatch):
    path = corpus.save(tensors(), tmp_path / "m.pt")
    out = tmp_path / "o.safetensors"
    out.write_text("mine")
    with pytest.raises(PathError, match="exists already"):
        everybit.extract(path, out)
    assert out.read_text() == "mine"
    with pytest.raises(PathError, match="does not exist"):
        everybit.extract(path, tmp_path / "no" / "o.safetensors")
    other = tmp_path / "other.safetensors"
    (tmp_path / "other.safetensors.lost.json").write_text("mine")
    with pytest.raises(PathError, match="exists already"):
        everybit.extract(path, other)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(full))
    with pytest.raises(PathError, match="no space left"):
        everybit.extract(path, tmp_path / "third.safetensors")
    names = {"m.pt", "o.safetensors", "other.safetensors.lost.json"}
    assert {each.name for each in tmp_path.iterdir()} == names


def test_what_holds_nothing_whole_is_one_clear_error(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"\x40" + bytes(7) + b"{" + b"x" * 100)
    (tmp_path / "e.pt").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for name in ("m.safetensors", "e.pt"):
        with pytest.raises(DamagedError, match="no tensor that is whole"):
            everybit.extract(tmp_path / name, tmp_path / "o.safetensors")
    for name in ("empty", "gone.pt"):
        with pytest.raises(PathError):
            everybit.extract(tmp_path / name, tmp_path / "o.safetensors")
    assert not (tmp_path / "o.safetensors").exists()


def test_a_pointer_is_told_as_what_it_is(tmp_path):
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (tmp_path / "m.safetensors").write_bytes(text)
    with pytest.raises(DamagedError, match="git-LFS pointer") as caught:
        everybit.extract(tmp_path / "m.safetensors", tmp_path / "o.safetensors")
    assert caught.value.rule == "FIL118"


def test_types_that_the_format_lacks_are_stored_as_their_bytes(tmp_path):
    values = {
        "c": torch.view_as_complex(torch.randn(10, 2, dtype=torch.float64)),
        "q": torch.quantize_per_tensor(torch.randn(12), 0.1, 3, torch.qint8),
    }
    path = corpus.save(values, tmp_path / "m.pt")
    _, got, report = extract(path, tmp_path / "o.safetensors")
    assert torch.equal(torch.view_as_complex(got["c"]), values["c"])
    assert torch.equal(got["q"], values["q"].int_repr())
    assert report["stored_as"] == {"c": "F64 x 2", "q": "I8"}
